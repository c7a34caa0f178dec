// The element types that checkpoints may hold here, by the names that safetensors gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace picchio {

enum class Dtype : uint8_t { kF32, kF16, kBf16, kU8, kI8 };

std::string_view DtypeName(Dtype dtype);  // "F32", "BF16", ...
size_t DtypeBytes(Dtype dtype);           // Of one element.
inline bool IsFloat(Dtype dtype) { return dtype != Dtype::kU8 && dtype != Dtype::kI8; }

// The type called `name`. Any other is refused with kUnsupported by its name and with what to do
// instead; `where` says whose type it is ("tensor \"a\" of model.safetensors").
Result<Dtype> ParseDtype(std::string_view name, std::string_view where);

// "[128,64]", "[]" for a scalar: how shapes are spelled in messages, manifests and model ids.
std::string ShapeText(std::span<const uint64_t> shape);

// The product of the sizes (1 for a scalar), or kCorrupt if it or its bytes as `dtype` exceed 2^63.
Result<uint64_t> CountElements(std::span<const uint64_t> shape, Dtype dtype);

// Elements of a float type, little-endian at any alignment, as F32. Exact (a NaN may become quiet).
// in: DtypeBytes(dtype) * out.size() bytes; the two do not overlap. Integer types are the caller's
// bug: what they mean is up to the tensor that has them.
void WidenToF32(Dtype dtype, std::span<const std::byte> in, std::span<float> out);

}  // namespace picchio
