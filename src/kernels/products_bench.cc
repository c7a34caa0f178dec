// The decode products of Qwen3-30B-A3B's and gpt-oss's shapes on one core, for every instruction
// set that this machine runs: GB/s of weights. The weights exceed the caches of most machines.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/units.h"
#include "kernels/kernels.h"

namespace picchio {
namespace {

constexpr size_t kWeightBytes = 256_MiB;

struct Work {
  size_t cols;
  size_t rows;  // So many that the weights fill kWeightBytes.
  std::vector<uint8_t> weights;
  std::vector<float> scales;
  std::vector<float> x;
  std::vector<float> y;
  AlignedBuffer quantised_memory;

  explicit Work(size_t cols_in, size_t row_bytes)
      : cols(cols_in), rows(kWeightBytes / row_bytes), weights(rows * row_bytes), y(rows) {
    std::mt19937 random(1);
    for (uint8_t& byte : weights) byte = static_cast<uint8_t>(100 + random() % 27);
    scales.assign(rows * (cols / 32), 0.01F);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < cols; ++i) x.push_back(normal(random));
  }

  QuantizedRows Quantise(const Kernels& kernels, ActivationKind kind) {
    auto memory = AlignedBuffer::Allocate(QuantizedRows::BytesFor(kind, cols, 1), 64);
    quantised_memory = std::move(*memory);
    QuantizedRows rows_of_x(kind, cols, 1, quantised_memory.data());
    kernels.quantize({x.data(), 1, cols}, rows_of_x);
    return rows_of_x;
  }
};

void Report(benchmark::State& state, const Work& work) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * work.weights.size()));
}

void Int4(benchmark::State& state, const Kernels* kernels, size_t cols) {
  Work work(cols, cols / 2);
  const QuantizedRows x = work.Quantise(*kernels, ActivationKind::kForInt4);
  const Int4Matrix w{work.weights.data(), work.scales.data(), work.rows, cols};
  for (auto _ : state) {
    kernels->matmul_int4(w, {0, work.rows}, x, {work.y.data(), work.rows});
    benchmark::DoNotOptimize(work.y.data());
  }
  Report(state, work);
}

void Int8(benchmark::State& state, const Kernels* kernels, size_t cols) {
  Work work(cols, cols);
  const QuantizedRows x = work.Quantise(*kernels, ActivationKind::kForInt8);
  const Int8Matrix w{reinterpret_cast<const int8_t*>(work.weights.data()), work.scales.data(),
                     work.rows, cols};
  for (auto _ : state) {
    kernels->matmul_int8(w, {0, work.rows}, x, {work.y.data(), work.rows});
    benchmark::DoNotOptimize(work.y.data());
  }
  Report(state, work);
}

void Mxfp4(benchmark::State& state, const Kernels* kernels, size_t cols) {
  Work work(cols, cols / 2);
  const QuantizedRows x = work.Quantise(*kernels, ActivationKind::kForMxfp4);
  const std::vector<uint8_t> exponents(work.rows * cols / 32, 120);
  const Mxfp4Matrix w{work.weights.data(), exponents.data(), work.rows, cols};
  for (auto _ : state) {
    kernels->matmul_mxfp4(w, {0, work.rows}, x, {work.y.data(), work.rows});
    benchmark::DoNotOptimize(work.y.data());
  }
  Report(state, work);
}

void Bf16(benchmark::State& state, const Kernels* kernels, size_t cols) {
  Work work(cols, cols * 2);
  const Bf16Matrix w{reinterpret_cast<const uint16_t*>(work.weights.data()), work.rows, cols};
  for (auto _ : state) {
    kernels->matmul_bf16(w, {0, work.rows}, {work.x.data(), 1, cols}, {work.y.data(), work.rows});
    benchmark::DoNotOptimize(work.y.data());
  }
  Report(state, work);
}

// The yardstick: the same bytes read and nothing done with them.
void ReadOnly(benchmark::State& state) {
  const std::vector<uint64_t> bytes(kWeightBytes / 8, 1);
  for (auto _ : state) {
    uint64_t sum = 0;
    for (const uint64_t word : bytes) sum += word;
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kWeightBytes));
}

}  // namespace
}  // namespace picchio

int main(int argc, char** argv) {
  using namespace picchio;
  benchmark::Initialize(&argc, argv);
  benchmark::RegisterBenchmark("read_only", ReadOnly);
  for (const Kernels* kernels : AvailableKernels()) {
    const std::string name(InstructionSetName(kernels->instruction_set));
    benchmark::RegisterBenchmark((name + "/int4/2048").c_str(), Int4, kernels, 2048);
    benchmark::RegisterBenchmark((name + "/int4/768").c_str(), Int4, kernels, 768);
    benchmark::RegisterBenchmark((name + "/mxfp4/2880").c_str(), Mxfp4, kernels, 2880);
    benchmark::RegisterBenchmark((name + "/int8/2048").c_str(), Int8, kernels, 2048);
    benchmark::RegisterBenchmark((name + "/bf16/2048").c_str(), Bf16, kernels, 2048);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
