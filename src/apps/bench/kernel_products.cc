#include "apps/bench/kernel_products.h"

#include "base/units.h"

namespace picchio {
namespace {

using enum WeightFormat;

constexpr std::string_view kQwen = "qwen3-30b-a3b";
constexpr std::string_view kGptOss = "gpt-oss-20b";

// From the published config.json: hidden size, width of an expert, heads and keys' heads times
// their size, number of experts, vocabulary. Attention is BF16, or INT8 with `--dense int8`; heads
// are either.
constexpr BenchProduct kProducts[] = {
    {kQwen, "gate_up", kInt4, 2 * 768, 2048},
    {kQwen, "down", kInt4, 2048, 768},
    {kQwen, "q", kBf16, 4096, 2048},
    {kQwen, "k, v", kBf16, 512, 2048},
    {kQwen, "o", kBf16, 2048, 4096},
    {kQwen, "q", kInt8, 4096, 2048},
    {kQwen, "k, v", kInt8, 512, 2048},
    {kQwen, "o", kInt8, 2048, 4096},
    {kQwen, "router", kBf16, 128, 2048},
    {kQwen, "router", kF32, 128, 2048},
    {kQwen, "head", kInt8ByF32, 151936, 2048},
    {kQwen, "head", kBf16, 151936, 2048},
    {kGptOss, "gate_up", kMxfp4, 2 * 2880, 2880},
    {kGptOss, "down", kMxfp4, 2880, 2880},
    {kGptOss, "gate_up", kInt4, 2 * 2880, 2880},
    {kGptOss, "down", kInt4, 2880, 2880},
    {kGptOss, "q", kBf16, 4096, 2880},
    {kGptOss, "k, v", kBf16, 512, 2880},
    {kGptOss, "o", kBf16, 2880, 4096},
    {kGptOss, "q", kInt8, 4096, 2880},
    {kGptOss, "k, v", kInt8, 512, 2880},
    {kGptOss, "o", kInt8, 2880, 4096},
    {kGptOss, "router", kBf16, 32, 2880},
    {kGptOss, "head", kInt8ByF32, 201088, 2880},
    {kGptOss, "head", kBf16, 201088, 2880},
};

}  // namespace

std::string_view WeightFormatName(WeightFormat format) {
  switch (format) {
    case kInt4:
      return "int4";
    case kMxfp4:
      return "mxfp4";
    case kInt8:
      return "int8";
    case kInt8ByF32:
      return "int8-f32";
    case kBf16:
      return "bf16";
    case kF32:
      return "f32";
  }
  return "unknown";
}

bool TakesQuantized(WeightFormat format) {
  return format == kInt4 || format == kMxfp4 || format == kInt8;
}

size_t BenchProduct::code_bytes_per_row() const {
  switch (format) {
    case kInt4:
    case kMxfp4:
      return cols / 2;
    case kInt8:
    case kInt8ByF32:
      return cols;
    case kBf16:
      return cols * 2;
    case kF32:
      return cols * 4;
  }
  return 0;
}

size_t BenchProduct::scale_bytes_per_row() const {
  switch (format) {
    case kInt4:
      return CeilDiv(cols, 64) * sizeof(float);
    case kMxfp4:
      return cols / 32;
    case kInt8:
    case kInt8ByF32:
      return sizeof(float);
    case kBf16:
    case kF32:
      return 0;
  }
  return 0;
}

std::span<const BenchProduct> BenchProducts() { return kProducts; }

}  // namespace picchio
