// `picchio bench kernels`: what the machine can do at most, and how near the products of real
// models come to it, for every instruction set, with one row of activations (decoding) and with
// several.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench/kernel_products.h"
#include "apps/bench/sample_statistics.h"
#include "base/status.h"
#include "kernels/instruction_set.h"

namespace picchio {

struct KernelBenchOptions {
  std::vector<InstructionSet> sets{};   // Those that run here; empty: all of them.
  std::vector<WeightFormat> formats{};  // Empty: all.
  std::vector<int> threads{};           // Empty: 1 and the CPUs that may be used.
  std::vector<size_t> x_rows = {1, 8, 64};
  int rounds = 5;
  double seconds = 0.02;  // Of one measurement.
  // Weights are read from so much memory in turn, that no cache keeps them.
  uint64_t buffer_bytes = uint64_t{1} << 29;
};

// What keeps a product from being faster.
enum class Wall : uint8_t { kMemory, kInteger, kFloat };
std::string_view WallName(Wall wall);  // "memory", "integer", "float".

// Of a number of threads: bytes a second, in a program that only reads.
struct ReadLimit {
  int threads = 0;
  Spread bytes_per_second{};
};

// Operations a second, from registers; a multiplication and an addition are two.
struct ComputeLimit {
  InstructionSet set = InstructionSet::kScalar;
  int threads = 0;
  Spread integer_ops_per_second{};
  Spread float_ops_per_second{};
};

struct KernelFigure {
  BenchProduct product{};
  InstructionSet set = InstructionSet::kScalar;
  int threads = 0;
  size_t x_rows = 0;
  Spread bytes_per_second{};  // Of weights.
  Spread ops_per_second{};
  // The nearer wall by the medians, and the part of it that is reached. Memory is read and
  // registers are multiplied directly before each measurement, so that the machine's moods are in
  // both.
  Wall wall = Wall::kMemory;
  Spread share{};
};

struct KernelBenchReport {
  std::string cpu{};
  int num_cpus = 0;  // That may be used.
  std::string build{};
  uint64_t buffer_bytes = 0;
  std::vector<ReadLimit> read_limits{};
  std::vector<ComputeLimit> compute_limits{};
  std::vector<KernelFigure> figures{};
};

// The parts of both walls that are reached, and the larger one.
struct Reached {
  Wall wall = Wall::kMemory;
  double share = 0;
};
Reached NearerWall(double read_share, double compute_share, bool quantized);

// Measures all in turn, round by round. `on_progress` gets how many of how many measurements are
// done. `stop` ends it with kCancelled. Fails with kInvalidArgument for an instruction set that
// this CPU lacks and for no product at all, with kResourceExhausted where there is no such memory
// or where the system starts no more threads.
Result<KernelBenchReport> RunKernelBench(const KernelBenchOptions& options,
                                         const std::atomic<bool>& stop,
                                         const std::function<void(size_t, size_t)>& on_progress);

}  // namespace picchio
