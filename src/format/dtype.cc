#include "format/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/printable.h"
#include "format/float16.h"

namespace picchio {
namespace {

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<DtypeFacts, 5> kDtypes = {{
    {Dtype::kF32, "F32", 4},
    {Dtype::kF16, "F16", 2},
    {Dtype::kBf16, "BF16", 2},
    {Dtype::kU8, "U8", 1},
    {Dtype::kI8, "I8", 1},
}};

const DtypeFacts& FactsOf(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)]; }

std::string_view WhatToDoInstead(std::string_view name) {
  if (name.starts_with("F8_"))
    return "FP8 checkpoints are not supported; use the BF16 release of the model";
  if (name.starts_with("F4") || name.starts_with("F6_")) {
    return "this packing is not supported; use the BF16 release of the model, or for gpt-oss the "
           "original MXFP4 one, which stores U8";
  }
  if (name == "F64") return "save the tensor as F32 or BF16";
  if (name == "I16" || name == "I32" || name == "I64" || name == "U16" || name == "U32" ||
      name == "U64") {
    return "if the checkpoint is quantised (GPTQ, AWQ), use the BF16 release of the model";
  }
  return "supported are F32, F16, BF16, U8 and I8";
}

template <typename From, typename Convert>
void Widen(const std::byte* in, std::span<float> out, Convert convert) {
  // Through a small array: the input has no alignment, and whole blocks vectorise.
  std::array<From, 64> block;
  for (size_t i = 0; i < out.size(); i += block.size()) {
    const size_t n = std::min(block.size(), out.size() - i);
    std::memcpy(block.data(), in + i * sizeof(From), n * sizeof(From));
    for (size_t j = 0; j < n; ++j) out[i + j] = convert(block[j]);
  }
}

}  // namespace

std::string_view DtypeName(Dtype dtype) { return FactsOf(dtype).name; }
size_t DtypeBytes(Dtype dtype) { return FactsOf(dtype).bytes; }

Result<Dtype> ParseDtype(std::string_view name, std::string_view where) {
  for (const DtypeFacts& facts : kDtypes) {
    if (facts.name == name) return facts.dtype;
  }
  return Error(Code::kUnsupported, "{} has dtype {}: {}", where, Quoted(name),
               WhatToDoInstead(name));
}

std::string ShapeText(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

Result<uint64_t> CountElements(std::span<const uint64_t> shape, Dtype dtype) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 63;
  uint64_t count = 1;
  bool overflows = false;
  for (const uint64_t size : shape) {
    overflows |=
        __builtin_mul_overflow(count, size, &count) || count > kMaxBytes / DtypeBytes(dtype);
  }
  // A zero anywhere makes the whole empty, whatever the other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return uint64_t{0};
  if (overflows) {
    return Error(Code::kCorrupt, "the shape {} of {} has more elements than any file can hold",
                 Quoted(ShapeText(shape)), DtypeName(dtype));
  }
  return count;
}

void WidenToF32(Dtype dtype, std::span<const std::byte> in, std::span<float> out) {
  PICCHIO_CHECK(IsFloat(dtype));
  PICCHIO_CHECK(in.size() == out.size() * DtypeBytes(dtype));
  if (out.empty()) return;
  switch (dtype) {
    case Dtype::kF32:
      std::memcpy(out.data(), in.data(), in.size());
      return;
    case Dtype::kF16:
      return Widen<uint16_t>(in.data(), out, F16ToF32);
    default:
      return Widen<uint16_t>(in.data(), out, Bf16ToF32);
  }
}

}  // namespace picchio
