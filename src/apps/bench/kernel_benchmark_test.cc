#include "apps/bench/kernel_benchmark.h"

#include <string>

#include "apps/bench/kernel_bench_report.h"
#include "base/units.h"
#include "kernels/kernels.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

const std::atomic<bool> kNeverStopped{false};
const auto kNoProgress = [](size_t, size_t) {};

// A moment of everything.
KernelBenchOptions Short() {
  return {.sets = {BestKernels().instruction_set},
          .threads = {2},
          .x_rows = {1},
          .rounds = 1,
          .seconds = 1e-5,
          .buffer_bytes = 32_MiB};
}

TEST(KernelBenchTest, TheNearerWallIsTheOneOfWhichMoreIsReached) {
  EXPECT_EQ(NearerWall(0.75, 0.5, true).wall, Wall::kMemory);
  EXPECT_EQ(NearerWall(0.75, 0.5, true).share, 0.75);
  EXPECT_EQ(NearerWall(0.25, 0.5, true).wall, Wall::kInteger);
  EXPECT_EQ(NearerWall(0.25, 0.5, false).wall, Wall::kFloat);
  EXPECT_EQ(NearerWall(0.25, 0.5, false).share, 0.5);
}

TEST(KernelBenchTest, EveryProductIsMeasured) {
  size_t last = 0;
  ASSERT_OK_AND_ASSIGN(const KernelBenchReport report,
                       RunKernelBench(Short(), kNeverStopped, [&](size_t done, size_t total) {
                         EXPECT_EQ(done, last + 1);
                         EXPECT_EQ(total, BenchProducts().size());
                         last = done;
                       }));
  EXPECT_EQ(last, BenchProducts().size());
  ASSERT_EQ(report.read_limits.size(), 1U);
  EXPECT_EQ(report.read_limits[0].threads, 2);
  EXPECT_GT(report.read_limits[0].bytes_per_second.median, 0);
  ASSERT_EQ(report.compute_limits.size(), 1U);
  EXPECT_GT(report.compute_limits[0].integer_ops_per_second.median, 0);
  EXPECT_GT(report.compute_limits[0].float_ops_per_second.median, 0);
  ASSERT_EQ(report.figures.size(), BenchProducts().size());
  for (const KernelFigure& figure : report.figures) {
    SCOPED_TRACE(std::string(figure.product.model) + std::string(figure.product.name));
    EXPECT_GT(figure.bytes_per_second.median, 0);
    EXPECT_GT(figure.share.median, 0);
    if (TakesQuantized(figure.product.format)) {
      EXPECT_NE(figure.wall, Wall::kFloat);
    } else {
      EXPECT_NE(figure.wall, Wall::kInteger);
    }
  }
}

// INT4 has 2 operations for each of 64 weights, of 32 bytes of codes and 4 of scale, and each row
// of activations.
TEST(KernelBenchTest, OperationsAreCountedForEveryRow) {
  KernelBenchOptions options = Short();
  options.sets.clear();  // All that there are.
  options.formats = {WeightFormat::kInt4};
  options.x_rows = {1, 5};
  options.rounds = 2;
  ASSERT_OK_AND_ASSIGN(const KernelBenchReport report,
                       RunKernelBench(options, kNeverStopped, kNoProgress));
  EXPECT_EQ(report.figures.size(), 4 * 2 * AvailableKernels().size());
  for (const KernelFigure& figure : report.figures) {
    const double per_byte = figure.ops_per_second.median / figure.bytes_per_second.median;
    EXPECT_NEAR(per_byte, 128.0 / 36.0 * static_cast<double>(figure.x_rows), 1e-9);
  }
  const Json json = KernelBenchJson(report);
  EXPECT_EQ(json["kernels"].size(), report.figures.size());
  EXPECT_EQ(json["kernels"][0]["instruction_set"], "scalar");
  EXPECT_EQ(json["kernels"][0]["share"]["median"], report.figures[0].share.median);
  EXPECT_EQ(json["compute_limits"].size(), AvailableKernels().size());
  const std::string text = KernelBenchText(report);
  EXPECT_THAT(text, HasSubstr("qwen3-30b-a3b gate_up"));
  EXPECT_THAT(text, HasSubstr("multiply bytes"));
  EXPECT_THAT(text, testing::Not(HasSubstr("multiply floats")));  // No product needed it.
}

TEST(KernelBenchTest, WhatCannotBeMeasuredIsSaid) {
  KernelBenchOptions options = Short();
  options.sets = {CpuHas(InstructionSet::kNeon) ? InstructionSet::kAvx2 : InstructionSet::kNeon};
  EXPECT_THAT(RunKernelBench(options, kNeverStopped, kNoProgress).error().message(),
              HasSubstr("this CPU has no "));

  options = Short();
  options.buffer_bytes = 4_MiB;
  EXPECT_THAT(RunKernelBench(options, kNeverStopped, kNoProgress).error().message(),
              HasSubstr("are less than one matrix"));

  const std::atomic<bool> stopped{true};
  EXPECT_EQ(RunKernelBench(Short(), stopped, kNoProgress).error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace picchio
