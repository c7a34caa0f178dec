#include "experts/access_trace.h"

#include "base/check.h"

// Any bytes; what is read as a trace has one spelling that reads as the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = picchio::ParseTrace(text, "input");
  if (!trace.has_value()) return 0;
  const auto again = picchio::ParseTrace(picchio::SerializeTrace(*trace), "written");
  PICCHIO_CHECK(again.has_value() && again->header == trace->header &&
                again->lists == trace->lists);
  return 0;
}
