#include "apps/convert/journal.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

// The journal that a crash, or anybody, left behind: whatever it holds, it opens and goes on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::Journal;
  static const int memory = memfd_create("journal", MFD_CLOEXEC);
  static const picchio::Path path = "/proc/self/fd/" + std::to_string(memory);
  PICCHIO_CHECK(memory >= 0 && ftruncate(memory, 0) == 0);
  PICCHIO_CHECK(pwrite(memory, data, size, 0) == static_cast<ssize_t>(size));

  size_t entries = 0;
  {
    auto journal = Journal::Open(path, "f");
    PICCHIO_CHECK(journal.has_value());
    entries = journal->entries().size();
    PICCHIO_CHECK(journal->Record("a tensor of this test", {picchio::Sha256Of("x"), {}}).ok());
    if (!journal->entries().contains("a tensor of this test")) ++entries;
  }
  const auto again = Journal::Open(path, "f");
  PICCHIO_CHECK(again.has_value() && again->entries().size() == entries);
  return 0;
}
