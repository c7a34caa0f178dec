// What people type: ids for `run --ids`, flags for `bench run`. What was read is written and read
// again, and is the same.
#include <algorithm>
#include <string>

#include "apps/bench/run_flags.h"
#include "apps/run/prompt.h"
#include "base/check.h"

namespace {

void Ids(std::string_view text) {
  const auto ids = picchio::ParseIds(text, "input");
  if (!ids.has_value()) return;
  std::string written;
  for (const int32_t id : *ids) {
    PICCHIO_CHECK(id >= 0);
    written += std::to_string(id);
    written += ' ';
  }
  const auto again = picchio::ParseIds(written, "written");
  PICCHIO_CHECK(again.has_value() && *again == *ids);
}

void Flags(std::string_view text) {
  const auto flags = picchio::ParseRunFlags(text);
  if (!flags.has_value()) return;
  picchio::StoreOf(*flags);
  std::string written;
  const auto write = [&](const std::string& word) {
    written += '\'';
    for (const char c : word) written += c == '\'' ? "'\\''" : std::string(1, c);
    written += "' ";
  };
  std::ranges::for_each(flags->environment, write);
  std::ranges::for_each(flags->arguments, write);
  const auto again = picchio::ParseRunFlags(written);
  PICCHIO_CHECK(again.has_value() && again->environment == flags->environment &&
                again->arguments == flags->arguments);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Ids(text);
  Flags(text);
  return 0;
}
