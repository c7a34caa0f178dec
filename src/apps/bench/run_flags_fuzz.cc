#include "apps/bench/run_flags.h"
#include "base/check.h"

// What is read, quoted and read again is the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto flags =
      picchio::ParseRunFlags(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!flags.has_value()) return 0;
  picchio::StoreOf(*flags);
  std::string written;
  const auto write = [&](const std::string& word) {
    written += '\'';
    for (const char c : word) written += c == '\'' ? "'\\''" : std::string(1, c);
    written += "' ";
  };
  for (const std::string& word : flags->environment) write(word);
  for (const std::string& word : flags->arguments) write(word);
  const auto again = picchio::ParseRunFlags(written);
  PICCHIO_CHECK(again.has_value() && again->environment == flags->environment &&
                again->arguments == flags->arguments);
  return 0;
}
