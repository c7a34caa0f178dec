// Holds one table of kernels to another, bit for bit, on random and awkward inputs. Needs nothing
// but the standard library, as contract_test_support.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/contract_test_support.h"
#include "kernels/kernels.h"

namespace picchio {

// Seeded inputs. Each vector takes one of several characters: Gaussian, with outliers, mostly zeros
// of both signs, denormals, over a wide range of magnitudes, all equal.
class RandomInputs {
 public:
  explicit RandomInputs(uint32_t seed) : random_(seed) {}

  size_t Below(size_t n) { return random_() % n; }

  std::vector<float> Floats(size_t n) {
    std::vector<float> values(n);
    const size_t character = Below(6);
    for (float& value : values) value = Float(character);
    return values;
  }

  // No cancelling, overflowing or vanishing: what passes through a model.
  std::vector<float> Gaussian(size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = Float(0);
    return values;
  }

  template <typename T>
  std::vector<T> Integers(size_t n) {
    std::vector<T> values(n);
    for (T& value : values) value = static_cast<T>(random_());
    return values;
  }

 private:
  float Float(size_t character) {
    const float gaussian = normal_(random_);
    switch (character) {
      case 0:
        return gaussian;
      case 1:
        return Below(30) == 0 ? 900 * gaussian : gaussian;
      case 2:
        return Below(4) == 0 ? gaussian : Below(2) == 0 ? 0.0F : -0.0F;
      case 3:
        return gaussian * 0x1p-135F;
      case 4:
        return std::ldexp(gaussian, static_cast<int>(Below(60)) - 50);
      default:
        return gaussian < 0 ? -1.5F : 1.5F;
    }
  }

  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

// Compares every function of a table with the reference's; messages() names the differences.
class EqualityCheck {
 public:
  EqualityCheck(const Kernels& kernels, const Kernels& reference)
      : k_(kernels), reference_(reference), random_(7) {
    for (const size_t cols : {2, 8, 24, 32, 40, 64, 66, 96, 128, 160, 224, 320, 608, 1344, 1400}) {
      CheckQuantized(cols);
      CheckDecoded(cols);
    }
    for (size_t cols = 0; cols <= 70; ++cols) CheckFloat(cols);
    for (size_t n = 0; n <= 70; ++n) CheckVectors(n);
    for (const size_t head_dim : {2, 16, 24, 32, 64, 80, 128}) CheckHeads(head_dim);
    CheckExp();
    CheckNotFinite();
  }

  const std::vector<std::string>& messages() const { return messages_; }

 private:
  // Runs `function` on both tables; each returns its results.
  template <typename Function>
  void Same(std::string_view what, size_t size, Function function) {
    if (messages_.size() >= 10) return;  // Enough to say that it is wrong.
    const std::vector<float> expected = function(reference_);
    const std::vector<float> actual = function(k_);
    for (size_t i = 0; i < expected.size(); ++i) {
      uint32_t a;
      uint32_t b;
      std::memcpy(&a, &expected[i], sizeof(a));
      std::memcpy(&b, &actual[i], sizeof(b));
      if (a == b || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
      char text[160];
      std::snprintf(text, sizeof(text),
                    "%s %.*s of size %zu at %zu: %a (%08x), scalar has %a (%08x)",
                    InstructionSetName(k_.instruction_set).data(), static_cast<int>(what.size()),
                    what.data(), size, i, actual[i], b, expected[i], a);
      messages_.emplace_back(text);
      return;  // One a call will do.
    }
  }

  void CheckQuantized(size_t cols) {
    const size_t rows = 1 + random_.Below(9);
    const size_t num_x = 1 + random_.Below(9);
    const RowRange range{random_.Below(rows), rows};
    const size_t x_stride = cols + random_.Below(3);
    const auto x = random_.Floats(num_x * x_stride);
    const auto codes = random_.Integers<uint8_t>(rows * cols);  // Enough for every format.
    const auto scales = random_.Floats(rows * ((cols + 63) / 64));
    auto exponents = random_.Integers<uint8_t>(rows * (cols / 32));
    for (uint8_t& e : exponents) e = e % 230;

    for (const auto kind :
         {ActivationKind::kForInt4, ActivationKind::kForInt8, ActivationKind::kForMxfp4}) {
      if (kind == ActivationKind::kForMxfp4 && cols % 32 != 0) continue;
      const QuantizedStorage storage(kind, cols, num_x);
      const QuantizedRows& quantized = storage.rows();
      Same("quantize", cols, [&](const Kernels& k) {
        // What a table leaves out must not be there from the one before.
        std::memset(quantized.codes(0), 0xa5, QuantizedRows::BytesFor(kind, cols, num_x));
        k.quantize({x.data(), num_x, x_stride}, quantized);
        return AllOf(quantized);
      });
      Same("quantized product", cols, [&](const Kernels& k) {
        std::vector<float> y(num_x * rows);
        const F32Output out{y.data(), rows};
        if (kind == ActivationKind::kForInt4) {
          k.matmul_int4({codes.data(), scales.data(), rows, cols}, range, quantized, out);
        } else if (kind == ActivationKind::kForInt8) {
          k.matmul_int8({reinterpret_cast<const int8_t*>(codes.data()), scales.data(), rows, cols},
                        range, quantized, out);
        } else {
          k.matmul_mxfp4({codes.data(), exponents.data(), rows, cols}, range, quantized, out);
        }
        return y;
      });
    }
  }

  // Everything that a row of quantised activations stores, padding included.
  static std::vector<float> AllOf(const QuantizedRows& q) {
    std::vector<float> all;
    for (size_t t = 0; t < q.num_rows(); ++t) {
      const size_t num_codes = q.num_groups() * GroupSize(q.kind());
      all.insert(all.end(), q.codes(t), q.codes(t) + num_codes);
      for (size_t i = 0; i < q.num_groups() * 8; ++i) {
        all.push_back(static_cast<float>(q.offsets(t)[i]));  // Below 2^24: exact.
      }
      all.insert(all.end(), q.scales(t), q.scales(t) + q.num_groups());
    }
    return all;
  }

  void CheckDecoded(size_t cols) {
    const size_t rows = 1 + random_.Below(9);
    const size_t num_x = 1 + random_.Below(9);
    const RowRange range{random_.Below(rows), rows};
    const auto x = random_.Floats(num_x * cols);
    const auto codes = random_.Integers<uint8_t>(rows * cols / 2);
    const auto scales = random_.Floats(rows * ((cols + 63) / 64));
    auto exponents = random_.Integers<uint8_t>(rows * (cols / 32));
    for (uint8_t& e : exponents) e = e % 200;
    Same("int4 x f32", cols, [&](const Kernels& k) {
      std::vector<float> y(num_x * rows);
      k.matmul_int4_f32({codes.data(), scales.data(), rows, cols}, range, {x.data(), num_x, cols},
                        {y.data(), rows});
      return y;
    });
    if (cols % 32 != 0) return;
    Same("mxfp4 x f32", cols, [&](const Kernels& k) {
      std::vector<float> y(num_x * rows);
      k.matmul_mxfp4_f32({codes.data(), exponents.data(), rows, cols}, range,
                         {x.data(), num_x, cols}, {y.data(), rows});
      return y;
    });
  }

  void CheckFloat(size_t cols) {
    const size_t rows = 1 + random_.Below(9);
    const size_t num_x = random_.Below(10);
    const RowRange range{random_.Below(rows), rows};
    const size_t stride = cols + random_.Below(3);
    const auto x = random_.Floats(num_x * stride);
    const F32Rows activations{x.data(), num_x, stride};
    const auto f32 = random_.Floats(rows * cols);
    std::vector<uint16_t> bf16(rows * cols);
    for (size_t i = 0; i < bf16.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &f32[i], sizeof(bits));
      bf16[i] = static_cast<uint16_t>(bits >> 16);
    }
    const auto int8 = random_.Integers<int8_t>(rows * cols);
    const auto scales = random_.Floats(rows);
    const auto product = [&](auto function, const auto& matrix) {
      std::vector<float> y(num_x * rows);
      function(matrix, range, activations, {y.data(), rows});
      return y;
    };
    Same("f32", cols, [&](const Kernels& k) {
      return product(k.matmul_f32, F32Matrix{f32.data(), rows, cols});
    });
    Same("bf16", cols, [&](const Kernels& k) {
      return product(k.matmul_bf16, Bf16Matrix{bf16.data(), rows, cols});
    });
    Same("int8 x f32", cols, [&](const Kernels& k) {
      return product(k.matmul_int8_f32, Int8Matrix{int8.data(), scales.data(), rows, cols});
    });
    if (cols == 0) return;
    const auto w = random_.Floats(cols);
    Same("rms_norm", cols, [&](const Kernels& k) {
      std::vector<float> y(num_x * cols);
      k.rms_norm(activations, cols, w.data(), 1e-6F, {y.data(), cols});
      return y;
    });
  }

  void CheckVectors(size_t n) {
    const auto x = random_.Floats(2 * n);
    const auto y0 = random_.Floats(n);
    const float a = random_.Gaussian(1)[0];
    const auto with_y = [&](auto function) {
      std::vector<float> y = y0;
      function(y.data());
      return y;
    };
    Same("add", n,
         [&](const Kernels& k) { return with_y([&](float* y) { k.add(x.data(), n, y); }); });
    Same("scale", n,
         [&](const Kernels& k) { return with_y([&](float* y) { k.scale(a, x.data(), n, y); }); });
    Same("scale in place", n,
         [&](const Kernels& k) { return with_y([&](float* y) { k.scale(a, y, n, y); }); });
    Same("add_scaled", n, [&](const Kernels& k) {
      return with_y([&](float* y) { k.add_scaled(a, x.data(), n, y); });
    });
    Same("exp in place", n,
         [&](const Kernels& k) { return with_y([&](float* y) { k.exp(y, n, y); }); });
    Same("swiglu", n,
         [&](const Kernels& k) { return with_y([&](float* y) { k.swiglu(x.data(), n, y); }); });
    Same("swiglu in place", n, [&](const Kernels& k) {
      std::vector<float> y = x;
      k.swiglu(y.data(), n, y.data());
      return y;
    });
    Same("swiglu_clamped", n, [&](const Kernels& k) {
      return with_y([&](float* y) { k.swiglu_clamped(x.data(), n, 0.8F, y); });
    });
    Same("all_finite", n, [&](const Kernels& k) {
      return std::vector<float>{k.all_finite(x.data(), n) ? 1.0F : 0.0F};
    });
  }

  void CheckHeads(size_t head_dim) {
    const size_t num_heads = 1 + random_.Below(9);
    const auto turn = random_.Gaussian(head_dim);
    const auto heads = random_.Floats(num_heads * head_dim);
    Same("rope", head_dim, [&](const Kernels& k) {
      std::vector<float> y = heads;
      k.rope(y.data(), num_heads, head_dim, turn.data(), turn.data() + head_dim / 2);
      return y;
    });
    for (const size_t position : {0, 15, 63, 64, 130, 300}) {
      for (const size_t window : {1, 65, 1000}) {
        CheckAttention(head_dim, position, window, random_.Below(2) == 0);
      }
    }
  }

  void CheckAttention(size_t head_dim, size_t position, size_t window, bool sink) {
    const size_t num_heads = 1 + random_.Below(9);
    const size_t first = position + 1 > window ? position + 1 - window : 0;
    const size_t capacity = position + 1 - first + random_.Below(3);
    const size_t stride = head_dim + random_.Below(5);
    const auto q = random_.Floats(num_heads * head_dim);
    const auto kv = random_.Floats(2 * capacity * stride);
    const auto sinks = random_.Gaussian(num_heads);
    Same("attention", head_dim, [&](const Kernels& k) {
      std::vector<float> out(num_heads * head_dim, 5.0F);
      std::vector<float> scratch(AttentionScratchFloats(num_heads, head_dim),
                                 std::numeric_limits<float>::quiet_NaN());
      const AttentionTask task{.q = q.data(),
                               .num_heads = num_heads,
                               .head_dim = head_dim,
                               .first_position = first,
                               .position = position,
                               .scale = AttentionScale(head_dim),
                               .sinks = sink ? sinks.data() : nullptr,
                               .kv = {.k = kv.data(),
                                      .v = kv.data() + capacity * stride,
                                      .row_stride = stride,
                                      .capacity = capacity},
                               .out = out.data()};
      k.attention(task, scratch.data());
      return out;
    });
  }

  // exp and, by way of a gate on 1, the logistic function over all exponents.
  void CheckExp() {
    constexpr size_t kBatch = 4096;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 8191 * kBatch) {
      std::vector<float> x(2 * kBatch, 1.0F);
      for (size_t i = 0; i < kBatch; ++i) {
        const auto b = static_cast<uint32_t>(bits + 8191 * i);
        std::memcpy(&x[i], &b, sizeof(b));
      }
      Same("exp", kBatch, [&](const Kernels& k) {
        std::vector<float> y(kBatch);
        k.exp(x.data(), kBatch, y.data());
        return y;
      });
      Same("silu", kBatch, [&](const Kernels& k) {
        std::vector<float> y(kBatch);
        k.swiglu(x.data(), kBatch, y.data());
        return y;
      });
    }
  }

  // A NaN or an infinity anywhere must be one at the end, whatever its bits.
  void CheckNotFinite() {
    constexpr size_t kCols = 160;
    constexpr float kBad[] = {
        std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
    for (size_t at = 0; at < kCols; ++at) {
      std::vector<float> x = random_.Gaussian(kCols);
      x[at] = kBad[at % 4];
      const std::vector<uint8_t> codes(kCols, 0x9a);
      const std::vector<float> scales(kCols / 32, 1.0F);
      const std::vector<uint8_t> exponents(kCols / 32, 127);
      for (const auto kind :
           {ActivationKind::kForInt4, ActivationKind::kForInt8, ActivationKind::kForMxfp4}) {
        const QuantizedStorage storage(kind, kCols, 1);
        k_.quantize({x.data(), 1, kCols}, storage.rows());
        float y = 0;
        if (kind == ActivationKind::kForInt4) {
          k_.matmul_int4({codes.data(), scales.data(), 1, kCols}, {0, 1}, storage.rows(), {&y, 1});
        } else if (kind == ActivationKind::kForInt8) {
          k_.matmul_int8({reinterpret_cast<const int8_t*>(codes.data()), scales.data(), 1, kCols},
                         {0, 1}, storage.rows(), {&y, 1});
        } else {
          k_.matmul_mxfp4({codes.data(), exponents.data(), 1, kCols}, {0, 1}, storage.rows(),
                          {&y, 1});
        }
        if (std::isfinite(y)) Lost("a quantised product", at);
      }
      std::vector<float> out(kCols / 2);
      k_.swiglu(x.data(), kCols / 2, out.data());
      if (std::isfinite(out[at % (kCols / 2)])) Lost("swiglu", at);
      if (std::isnan(x[at])) {  // An infinite gate is clamped: that is a number.
        k_.swiglu_clamped(x.data(), kCols / 2, 7.0F, out.data());
        if (std::isfinite(out[at / 2])) Lost("swiglu_clamped", at);
      }
      if (k_.all_finite(x.data(), kCols)) Lost("all_finite", at);
    }
  }

  void Lost(const char* what, size_t at) {
    messages_.push_back(std::string(InstructionSetName(k_.instruction_set)) + " " + what +
                        ": lost what is no number at " + std::to_string(at));
  }

  const Kernels& k_;
  const Kernels& reference_;
  RandomInputs random_;
  std::vector<std::string> messages_;
};

}  // namespace picchio
