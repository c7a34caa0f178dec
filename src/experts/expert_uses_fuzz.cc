// Any bytes as what was recorded of experts' uses: a trace, or counters.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/crc32c.h"
#include "experts/access_trace.h"
#include "experts/use_counters.h"

namespace {

// What is read as a trace has one spelling that reads as the same.
void ReadAsTrace(std::string_view text) {
  const auto trace = picchio::ParseTrace(text, "input");
  if (!trace.has_value()) return;
  const auto again = picchio::ParseTrace(picchio::SerializeTrace(*trace), "written");
  PICCHIO_CHECK(again.has_value() && again->header == trace->header &&
                again->lists == trace->lists);
}

// As it is and with a checksum that fits; what is read is written and read as the same.
void ReadAsCounters(const std::string& text) {
  using picchio::ParseUseCounters;
  const picchio::CountedModel model{
      .id = "00112233445566778899aabbccddeeff", .num_layers = 3, .num_experts = 16};
  const uint32_t sum = picchio::Crc32c(std::as_bytes(std::span(text)));
  for (const std::string& input : {text, text + fmt::format("crc32c {:08x}\n", sum)}) {
    const auto uses = ParseUseCounters(input, model, "input");
    if (!uses.has_value()) continue;
    const auto again =
        ParseUseCounters(picchio::SerializeUseCounters(*uses, model), model, "written");
    PICCHIO_CHECK(again.has_value() && again->size() == uses->size());
    for (size_t i = 0; i < uses->size(); ++i) {
      PICCHIO_CHECK((*again)[i].key == (*uses)[i].key && (*again)[i].uses == (*uses)[i].uses);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ReadAsTrace(text);
  ReadAsCounters(text);
  return 0;
}
