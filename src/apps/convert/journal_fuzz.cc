#include "apps/convert/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"

// The journal that a crash, or anybody, left behind: it is another conversion's, or it opens and
// goes on, whatever it holds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::Journal;
  // In memory, where syncing costs nothing.
  static const picchio::Path path = "/dev/shm/picchio-journal-fuzz-" + std::to_string(getpid());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  PICCHIO_CHECK(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
  close(file);

  size_t entries = 0;
  {
    auto journal = Journal::Open(path, "f");
    if (!journal) {
      PICCHIO_CHECK(journal.error().code() == picchio::Code::kInvalidArgument);
      unlink(path.c_str());
      return 0;
    }
    entries = journal->entries().size();
    PICCHIO_CHECK(journal->Record("a tensor of this test", {picchio::Sha256Of("x"), {}}).ok());
    if (!journal->entries().contains("a tensor of this test")) ++entries;
  }
  {
    const auto again = Journal::Open(path, "f");
    PICCHIO_CHECK(again.has_value() && again->entries().size() == entries);
  }
  unlink(path.c_str());
  return 0;
}
