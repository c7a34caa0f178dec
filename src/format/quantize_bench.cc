// What a conversion costs a core: GB/s of BF16 weights through each quantiser.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/hash.h"
#include "format/float16.h"
#include "format/int4.h"
#include "format/int8.h"

namespace picchio {
namespace {

constexpr size_t kCols = 2048;
constexpr size_t kRows = 512;

std::vector<uint16_t> Weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<uint16_t> weights(kRows * kCols);
  for (uint16_t& bits : weights) bits = F32ToBf16(normal(random));
  return weights;
}

void Report(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRows * kCols * 2));
}

void Int4(benchmark::State& state, Int4Scheme scheme) {
  const std::vector<uint16_t> weights = Weights();
  std::vector<std::byte> packed(kRows * kCols / 2);
  std::vector<float> scales(kRows * Int4GroupsPerRow(kCols));
  QuantError error;
  for (auto _ : state) {
    benchmark::DoNotOptimize(QuantizeInt4(scheme, Dtype::kBf16, std::as_bytes(std::span(weights)),
                                          kCols, 0, packed, scales, error));
  }
  Report(state);
}

void Int8(benchmark::State& state) {
  const std::vector<uint16_t> weights = Weights();
  std::vector<int8_t> codes(kRows * kCols);
  std::vector<float> scales(kRows);
  QuantError error;
  for (auto _ : state) {
    benchmark::DoNotOptimize(QuantizeInt8(Dtype::kBf16, std::as_bytes(std::span(weights)), kCols, 0,
                                          codes, scales, error));
  }
  Report(state);
}

void Hash(benchmark::State& state) {
  const std::vector<uint16_t> weights = Weights();
  for (auto _ : state) {
    benchmark::DoNotOptimize(Sha256Of(std::as_bytes(std::span(weights))));
  }
  Report(state);
}

BENCHMARK_CAPTURE(Int4, absmax, Int4Scheme::kAbsmax);
BENCHMARK_CAPTURE(Int4, mse, Int4Scheme::kMse);
BENCHMARK(Int8);
BENCHMARK(Hash);

}  // namespace
}  // namespace picchio

BENCHMARK_MAIN();
