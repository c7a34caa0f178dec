#include "experts/use_counters.h"

#include "base/check.h"
#include "base/crc32c.h"

// Any bytes, as they are and with a checksum that fits; what is read is written and read as the
// same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using picchio::ParseUseCounters;
  const picchio::CountedModel model{
      .id = "00112233445566778899aabbccddeeff", .num_layers = 3, .num_experts = 16};
  const std::string text(reinterpret_cast<const char*>(data), size);
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
  return 0;
}
