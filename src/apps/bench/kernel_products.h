// The matrix products of the models that this engine is for, as `picchio bench kernels` measures
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace picchio {

enum class WeightFormat : uint8_t { kInt4, kMxfp4, kInt8, kInt8ByF32, kBf16, kF32 };

inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::kInt4, WeightFormat::kMxfp4,
                                                  WeightFormat::kInt8, WeightFormat::kInt8ByF32,
                                                  WeightFormat::kBf16, WeightFormat::kF32};

// "int4", "mxfp4", "int8", "int8-f32" (with activations that stay floats: heads), "bf16", "f32".
std::string_view WeightFormatName(WeightFormat format);

// Whether activations are quantised, and the products are of bytes.
bool TakesQuantized(WeightFormat format);

struct BenchProduct {
  std::string_view model;
  std::string_view name;
  WeightFormat format;
  size_t rows;
  size_t cols;

  // Codes and scales; the scales lie behind all codes.
  size_t code_bytes_per_row() const;
  size_t scale_bytes_per_row() const;
};

std::span<const BenchProduct> BenchProducts();

}  // namespace picchio
