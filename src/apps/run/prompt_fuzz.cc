#include "apps/run/prompt.h"

#include <algorithm>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = picchio::ParseIds(text, "input");
  if (!ids.has_value()) return 0;
  std::string written;
  for (const int32_t id : *ids) {
    PICCHIO_CHECK(id >= 0);
    written += std::to_string(id);
    written += ' ';
  }
  const auto again = picchio::ParseIds(written, "written");
  PICCHIO_CHECK(again.has_value() && *again == *ids);
  return 0;
}
