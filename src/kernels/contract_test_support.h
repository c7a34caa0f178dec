// Holds a table of kernels to the vectors of tests/data/fixtures/contract, bit for bit. Needs
// nothing but the standard library, so that it also runs where only the kernels are built
// (cross-compiled).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace picchio {

inline constexpr size_t kContractSizes[] = {48, 64, 96, 128, 768, 2048, 2880};
inline constexpr size_t kContractActivations = 6;
inline constexpr size_t kContractRows = 6;

// Memory for quantised rows, which start at multiples of 64.
class QuantizedStorage {
 public:
  QuantizedStorage(ActivationKind kind, size_t cols, size_t num_rows)
      : memory_(QuantizedRows::BytesFor(kind, cols, num_rows) / sizeof(Line) + 1),
        rows_(kind, cols, num_rows, reinterpret_cast<std::byte*>(memory_.data())) {
    std::memset(static_cast<void*>(memory_.data()), 0x55, memory_.size() * sizeof(Line));
  }

  const QuantizedRows& rows() const { return rows_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_;
  QuantizedRows rows_;
};

// The vectors of one row length.
class ContractVectors {
 public:
  ContractVectors(std::string folder, size_t n) : folder_(std::move(folder)), n_(n) {}

  size_t n() const { return n_; }
  size_t num_groups() const { return (n_ + 63) / 64; }
  size_t num_blocks() const { return n_ / 32; }
  bool has_mxfp4() const { return n_ % 32 == 0; }

  // The `count` elements of file nN.NAME.npy; empty where the file is not what its README says.
  template <typename T>
  std::vector<T> Read(std::string_view name, size_t count) const {
    const std::string path = folder_ + "/n" + std::to_string(n_) + "." + std::string(name) + ".npy";
    std::ifstream stream(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    if (bytes.size() < 10) return {};
    const size_t header =
        10 + static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
    if (bytes.size() != header + count * sizeof(T)) return {};
    std::vector<T> values(count);
    std::memcpy(values.data(), bytes.data() + header, count * sizeof(T));
    return values;
  }

 private:
  std::string folder_;
  size_t n_;
};

// Checks one table against one row length; messages() then names every difference.
class ContractCheck {
 public:
  ContractCheck(const Kernels& kernels, const ContractVectors& vectors)
      : k_(kernels), v_(vectors), x_(v_.Read<float>("x", kContractActivations * v_.n())) {
    if (x_.empty()) {
      messages_.push_back("the contract's vectors are not there or not of their size");
      return;
    }
    CheckQuantize(ActivationKind::kForInt4, "64");
    CheckQuantize(ActivationKind::kForInt8, "64");
    CheckInt4();
    CheckInt8();
    if (v_.has_mxfp4()) {
      CheckQuantize(ActivationKind::kForMxfp4, "32");
      CheckMxfp4();
    }
    CheckFloat();
    CheckNorm();
  }

  const std::vector<std::string>& messages() const { return messages_; }
  size_t num_compared() const { return num_compared_; }

 private:
  F32Rows X() const { return {x_.data(), kContractActivations, v_.n()}; }

  void Compare(std::string_view what, const std::vector<uint32_t>& expected, const void* actual) {
    if (expected.empty()) {
      messages_.push_back(std::string(what) + ": the expected values are not there");
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, static_cast<const char*>(actual) + i * sizeof(bits), sizeof(bits));
      ++num_compared_;
      if (bits == expected[i]) continue;
      char text[160];
      std::snprintf(text, sizeof(text), "%s n=%zu %.*s[%zu]: %08x, expected %08x",
                    InstructionSetName(k_.instruction_set).data(), v_.n(),
                    static_cast<int>(what.size()), what.data(), i, bits, expected[i]);
      messages_.emplace_back(text);
    }
  }

  void CheckQuantize(ActivationKind kind, const std::string& group) {
    const QuantizedStorage storage(kind, v_.n(), kContractActivations);
    const QuantizedRows& rows = storage.rows();
    k_.quantize(X(), rows);
    const auto codes = v_.Read<int8_t>("q" + group, kContractActivations * v_.n());
    std::vector<uint32_t> expected(codes.begin(), codes.end());
    std::vector<int32_t> actual;
    std::vector<float> scales;
    for (size_t t = 0; t < kContractActivations; ++t) {
      for (size_t i = 0; i < v_.n(); ++i) {
        actual.push_back(rows.codes(t)[QuantizedRows::CodeIndex(kind, i)]);
      }
      scales.insert(scales.end(), rows.scales(t), rows.scales(t) + rows.num_groups());
    }
    Compare("q" + group, expected, actual.data());
    Compare("s" + group, v_.Read<uint32_t>("s" + group, scales.size()), scales.data());
  }

  // A product over all rows at once and in every other way that a caller may cut it.
  template <typename Product>
  void CheckCuts(std::string_view what, Product product) {
    const auto expected =
        v_.Read<uint32_t>(std::string(what) + ".y", kContractActivations * kContractRows);
    for (size_t step_t = 1; step_t <= kContractActivations; ++step_t) {
      for (size_t step_r = 1; step_r <= kContractRows; ++step_r) {
        std::vector<float> y(kContractActivations * kContractRows, -1.0F);
        for (size_t t = 0; t < kContractActivations; t += step_t) {
          const size_t count =
              t + step_t < kContractActivations ? step_t : kContractActivations - t;
          for (size_t r = 0; r < kContractRows; r += step_r) {
            const size_t end = r + step_r < kContractRows ? r + step_r : kContractRows;
            product(RowRange{r, end}, t, count,
                    F32Output{y.data() + t * kContractRows, kContractRows});
          }
        }
        Compare(what, expected, y.data());
      }
    }
  }

  void CheckInt4() {
    const auto codes = v_.Read<uint8_t>("int4.w", kContractRows * v_.n() / 2);
    const auto scales = v_.Read<float>("int4.sw", kContractRows * v_.num_groups());
    const QuantizedStorage x(ActivationKind::kForInt4, v_.n(), kContractActivations);
    k_.quantize(X(), x.rows());
    const Int4Matrix w{codes.data(), scales.data(), kContractRows, v_.n()};
    CheckCuts("int4", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_int4(w, rows, x.rows().Slice(t, count), y);
    });
  }

  void CheckInt8() {
    const auto codes = v_.Read<int8_t>("int8.w", kContractRows * v_.n());
    const auto scales = v_.Read<float>("int8.sw", kContractRows);
    const QuantizedStorage x(ActivationKind::kForInt8, v_.n(), kContractActivations);
    k_.quantize(X(), x.rows());
    const Int8Matrix w{codes.data(), scales.data(), kContractRows, v_.n()};
    CheckCuts("int8", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_int8(w, rows, x.rows().Slice(t, count), y);
    });
    CheckCuts("head", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_int8_f32(w, rows, {x_.data() + t * v_.n(), count, v_.n()}, y);
    });
  }

  void CheckMxfp4() {
    const auto blocks = v_.Read<uint8_t>("mxfp4.w", kContractRows * v_.num_blocks() * 16);
    const auto exponents = v_.Read<uint8_t>("mxfp4.e", kContractRows * v_.num_blocks());
    const QuantizedStorage x(ActivationKind::kForMxfp4, v_.n(), kContractActivations);
    k_.quantize(X(), x.rows());
    const Mxfp4Matrix w{blocks.data(), exponents.data(), kContractRows, v_.n()};
    CheckCuts("mxfp4", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_mxfp4(w, rows, x.rows().Slice(t, count), y);
    });
  }

  void CheckFloat() {
    const auto f32 = v_.Read<float>("f32.w", kContractRows * v_.n());
    CheckCuts("f32", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_f32({f32.data(), kContractRows, v_.n()}, rows,
                    {x_.data() + t * v_.n(), count, v_.n()}, y);
    });
    const auto bf16 = v_.Read<uint16_t>("bf16.w", kContractRows * v_.n());
    CheckCuts("bf16", [&](RowRange rows, size_t t, size_t count, F32Output y) {
      k_.matmul_bf16({bf16.data(), kContractRows, v_.n()}, rows,
                     {x_.data() + t * v_.n(), count, v_.n()}, y);
    });
    std::vector<float> xx(kContractActivations);
    for (size_t t = 0; t < kContractActivations; ++t) {
      const float* row = x_.data() + t * v_.n();
      k_.matmul_f32({row, 1, v_.n()}, {0, 1}, {row, 1, v_.n()}, {xx.data() + t, 1});
    }
    Compare("xx", v_.Read<uint32_t>("xx.y", kContractActivations), xx.data());
  }

  void CheckNorm() {
    const auto w = v_.Read<float>("rms.w", v_.n());
    std::vector<float> y(2 * x_.size());
    k_.rms_norm(X(), v_.n(), w.data(), 1e-6F, {y.data(), v_.n()});
    k_.rms_norm(X(), v_.n(), w.data(), 1e-5F, {y.data() + x_.size(), v_.n()});
    Compare("rms", v_.Read<uint32_t>("rms.y", y.size()), y.data());
    for (const float eps : {1e-6F, 1e-5F}) {  // In place.
      float* rows = y.data() + (eps == 1e-6F ? 0 : x_.size());
      std::copy(x_.begin(), x_.end(), rows);
      k_.rms_norm({rows, kContractActivations, v_.n()}, v_.n(), w.data(), eps, {rows, v_.n()});
    }
    Compare("rms in place", v_.Read<uint32_t>("rms.y", y.size()), y.data());
  }

  const Kernels& k_;
  const ContractVectors& v_;
  std::vector<float> x_;
  std::vector<std::string> messages_;
  size_t num_compared_ = 0;
};

}  // namespace picchio
