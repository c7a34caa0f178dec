#include "model/products.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "format/float16.h"
#include "support/test_support.h"

namespace picchio {
namespace {

struct Matrices {
  static constexpr size_t kRows = 70;
  static constexpr size_t kCols = 192;

  std::vector<uint16_t> bf16 = std::vector<uint16_t>(kRows * kCols);
  std::vector<float> f32 = std::vector<float>(kRows * kCols);
  std::vector<int8_t> int8 = std::vector<int8_t>(kRows * kCols);
  std::vector<float> row_scales = std::vector<float>(kRows);
  std::vector<uint8_t> nibbles = std::vector<uint8_t>(kRows * kCols / 2);
  std::vector<float> group_scales = std::vector<float>(kRows * kCols / 64);
  std::vector<uint8_t> exponents = std::vector<uint8_t>(kRows * kCols / 32);

  Matrices() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < kRows * kCols; ++i) {
      f32[i] = normal(random);
      bf16[i] = F32ToBf16(normal(random));
      int8[i] = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    }
    for (float& scale : row_scales) scale = std::abs(normal(random)) / 127;
    for (float& scale : group_scales) scale = std::abs(normal(random)) / 7;
    for (uint8_t& byte : nibbles) byte = static_cast<uint8_t>(random());
    for (uint8_t& exponent : exponents) exponent = static_cast<uint8_t>(125 + random() % 4);
  }

  std::vector<WeightMatrix> All() const {
    return {Bf16Matrix{bf16.data(), kRows, kCols}, F32Matrix{f32.data(), kRows, kCols},
            Int8Matrix{int8.data(), row_scales.data(), kRows, kCols},
            Int4Matrix{nibbles.data(), group_scales.data(), kRows, kCols},
            Mxfp4Matrix{nibbles.data(), exponents.data(), kRows, kCols}};
  }

  // Element of the n-th of All(), from the definitions of the formats.
  double At(size_t n, size_t row, size_t col) const {
    const size_t i = row * kCols + col;
    const int nibble = nibbles[i / 2] >> (i % 2 * 4) & 15;
    switch (n) {
      case 0:
        return Bf16ToF32(bf16[i]);
      case 1:
        return f32[i];
      case 2:
        return int8[i] * static_cast<double>(row_scales[row]);
      case 3:
        return (nibble - 8) * static_cast<double>(group_scales[i / 64]);
      default: {
        const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
        return (nibble < 8 ? 1 : -1) * magnitudes[nibble % 8] * std::exp2(exponents[i / 32] - 127);
      }
    }
  }
};

TEST(Products, SayHowTheyAreQuantized) {
  const Matrices matrices;
  const std::vector<WeightMatrix> all = matrices.All();
  EXPECT_FALSE(QuantizationOf(all[0]).quantized);
  EXPECT_FALSE(QuantizationOf(all[1]).quantized);
  EXPECT_EQ(QuantizationOf(all[2]).kind, ActivationKind::kForInt8);
  EXPECT_EQ(QuantizationOf(all[3]).kind, ActivationKind::kForInt4);
  EXPECT_EQ(QuantizationOf(all[4]).kind, ActivationKind::kForMxfp4);
  for (size_t n = 2; n < 5; ++n) EXPECT_TRUE(QuantizationOf(all[n]).quantized);
  for (const WeightMatrix& weights : all) {
    EXPECT_EQ(RowsOf(weights), Matrices::kRows);
    EXPECT_EQ(ColsOf(weights), Matrices::kCols);
  }
}

// All kinds of weights in one list, with F32 activations and, where there are such, quantised ones.
TEST(Products, EqualF64AndDoNotDependOnThreads) {
  constexpr size_t kRows = Matrices::kRows;
  constexpr size_t kCols = Matrices::kCols;
  constexpr size_t kNumX = 150;
  const Matrices matrices;
  const std::vector<WeightMatrix> all = matrices.All();
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> x(kNumX * kCols);
  std::vector<float> bias(kRows);
  for (float& value : x) value = normal(random);
  for (float& value : bias) value = normal(random);

  const Kernels& kernels = BestKernels();
  std::vector<AlignedBuffer> memory;
  std::vector<QuantizedRows> quantized(all.size());
  for (size_t n = 2; n < all.size(); ++n) {
    const ActivationKind kind = QuantizationOf(all[n]).kind;
    memory.push_back(
        AlignedBuffer::Allocate(QuantizedRows::BytesFor(kind, kCols, kNumX), 64).value());
    quantized[n] = QuantizedRows(kind, kCols, kNumX, memory.back().data());
    kernels.quantize({x.data(), kNumX, kCols}, quantized[n]);
  }

  const auto run = [&](int threads, size_t num_x) {
    ThreadPool pool(threads);
    ProductRunner runner(kernels, pool);
    std::vector<float> y(2 * all.size() * num_x * kRows, -1);
    std::vector<Product> products;
    for (size_t n = 0; n < 2 * all.size(); ++n) {
      Product product;
      product.weights = &all[n / 2];
      product.bias = n / 2 == 1 ? nullptr : bias.data();
      product.quantized = n % 2 == 1 && QuantizationOf(all[n / 2]).quantized;
      if (product.quantized) {
        product.quantized_x = quantized[n / 2].Slice(0, num_x);
      } else {
        product.x = {x.data(), num_x, kCols};
      }
      product.y = {y.data() + n * num_x * kRows, kRows};
      products.push_back(product);
    }
    runner.Run(products);
    return y;
  };

  const std::vector<float> alone = run(1, kNumX);
  for (size_t n = 0; n < 2 * all.size(); ++n) {
    const bool is_quantized = n % 2 == 1 && QuantizationOf(all[n / 2]).quantized;
    for (size_t t = 0; t < kNumX; t += 37) {
      for (size_t r = 0; r < kRows; ++r) {
        double sum = n / 2 == 1 ? 0 : bias[r];
        double magnitude = std::abs(sum);
        for (size_t c = 0; c < kCols; ++c) {
          const double term = matrices.At(n / 2, r, c) * x[t * kCols + c];
          sum += term;
          magnitude += std::abs(term);
        }
        // Activations rounded to 8 bits are off by 1/254 of their group's maximum, some 3 sigma.
        const double error = is_quantized ? 0.01 * magnitude : 1e-6 * magnitude;
        EXPECT_NEAR(alone[(n * kNumX + t) * kRows + r], sum, error) << n << " " << t << " " << r;
      }
    }
  }
  const std::vector<float> four = run(4, kNumX);
  EXPECT_EQ(std::memcmp(alone.data(), four.data(), alone.size() * sizeof(float)), 0);
  // A shorter list of rows, small enough for one thread: the same bits.
  const std::vector<float> one_row = run(4, 1);
  for (size_t n = 0; n < 2 * all.size(); ++n) {
    EXPECT_EQ(std::memcmp(&one_row[n * kRows], &alone[n * kNumX * kRows], kRows * sizeof(float)),
              0);
  }
}

TEST(Products, NothingToDo) {
  ThreadPool pool(2);
  ProductRunner runner(BestKernels(), pool);
  runner.Run({});
}

}  // namespace
}  // namespace picchio
