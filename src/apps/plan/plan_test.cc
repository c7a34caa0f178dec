#include "apps/plan/plan.h"

#include <algorithm>

#include "apps/plan/measure_compute.h"
#include "apps/plan/plan_report.h"
#include "base/units.h"
#include "experts/cache_simulator.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;
using testing::Not;

PlannedModel Qwen3() { return FindPlannedModel("qwen3-30b-a3b").value(); }

// 40 ms of computing a token.
PlanOptions Options(double bytes_per_second) {
  PlanOptions options;
  options.memory = MemoryOf(6_GiB);
  options.wishes.longest_prompt = 512;
  options.num_threads = 4;
  options.position = 523;
  options.trace = MakeRouting(Qwen3().config, Qwen3().layout, 0.5, 24);
  options.bytes_per_second = bytes_per_second;
  options.compute = {.attention = 0.02, .experts = 0.015, .head = 0.005};
  options.int8_compute = ComputeTimes{.attention = 0.012, .experts = 0.015, .head = 0.005};
  return options;
}

PlanContext Context(const PlannedModel& model, const PlanOptions& options) {
  return {.model = model,
          .options = options,
          .memory = "6 GiB, as told",
          .text = "24 tokens behind a prompt of 512",
          .routing = "made up",
          .storage = "as told",
          .notes = {"a note"}};
}

TEST(Plan, PutsTogetherMemoryHitsAndTimes) {
  const PlannedModel model = Qwen3();
  const PlanOptions options = Options(1e9);
  ASSERT_OK_AND_ASSIGN(const PlanReport report, MakePlan(model, options));
  ASSERT_OK_AND_ASSIGN(const MemoryPlan memory,
                       PlanRun(model.DemandFor(4, false), options.wishes, options.memory));
  EXPECT_EQ(report.now.memory.num_slots, memory.num_slots);
  const AccessTrace trace = MakeRouting(model.config, model.layout, 0.5, 24);
  ASSERT_OK_AND_ASSIGN(const HitRates hits, HitsOf(trace, static_cast<size_t>(memory.num_slots)));
  EXPECT_EQ(report.now.hits.whole, hits.whole);
  EXPECT_GT(hits.whole, 0);
  const Forecast forecast = ForecastToken({.num_moe_layers = 48,
                                           .experts_per_token = 8,
                                           .read_bytes = model.slot_bytes,
                                           .hit_rate = hits.whole,
                                           .bytes_per_second = 1e9,
                                           .compute = options.compute});
  EXPECT_EQ(report.now.text.seconds, forecast.seconds);

  // Each change is a run of its own, the best first.
  ASSERT_EQ(report.changes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const PlanCase& change = report.changes[i];
    if (i > 0) {
      EXPECT_LE(report.Gain(change), report.Gain(report.changes[i - 1]));
    }
    EXPECT_GT(report.Gain(change), 1) << change.what;
    if (change.what.starts_with("twice the memory")) {
      ASSERT_OK_AND_ASSIGN(const MemoryPlan twice,
                           PlanRun(model.DemandFor(4, false), options.wishes, MemoryOf(12_GiB)));
      EXPECT_EQ(change.memory.num_slots, twice.num_slots);
    } else if (change.what.starts_with("a drive")) {
      EXPECT_NEAR(change.text.bytes, report.now.text.bytes, 1);
      EXPECT_LT(change.text.wait, report.now.text.wait / 2);
    } else {
      EXPECT_THAT(change.what, HasSubstr("INT8"));
      EXPECT_EQ(change.memory.dense_bytes, model.int8_dense_bytes);
      EXPECT_GT(change.memory.num_slots, memory.num_slots);
    }
  }
  EXPECT_LT(report.Gain(*report.half_threads), 1);
}

TEST(Plan, SaysWhatLimitsAndWhatHelps) {
  const PlannedModel model = Qwen3();
  // Slow storage: computing is next to nothing.
  PlanOptions options = Options(5e7);
  ASSERT_OK_AND_ASSIGN(PlanReport report, MakePlan(model, options));
  std::string text = PlanText(Context(model, options), report);
  EXPECT_GT(report.now.text.wait_share(), 0.95);
  EXPECT_THAT(text, HasSubstr("Most would help "));
  EXPECT_THAT(text, HasSubstr("Threads mostly wait: half of the 4 would do"));
  EXPECT_THAT(text, HasSubstr("note: a note\n"));
  EXPECT_THAT(text, HasSubstr("24 tokens behind a prompt of 512; attention as in their middle, "
                              "position 523 of the context"));
  EXPECT_THAT(text, HasSubstr("48 layers of 128 experts, 8 at a time; experts INT4, attention "
                              "BF16, head INT8"));
  const Json json = PlanJson(Context(model, options), report);
  EXPECT_EQ(json["records_per_token"], 384);
  EXPECT_EQ(json["position"], 523);
  EXPECT_EQ(json["prediction"]["slots"], report.now.memory.num_slots);
  EXPECT_EQ(json["changes"].size(), 3u);
  EXPECT_EQ(json["changes"][0]["what"], report.changes.front().what);

  // Everything in memory before long, and a drive as fast as memory.
  options = Options(1e12);
  options.memory = MemoryOf(64_GiB);
  options.int8_compute.reset();
  ASSERT_OK_AND_ASSIGN(report, MakePlan(model, options));
  EXPECT_EQ(report.now.memory.num_slots, 48u * 128);
  EXPECT_NEAR(report.now.text.tokens_per_second(), 25, 0.5);
  text = PlanText(Context(model, options), report);
  EXPECT_THAT(text, HasSubstr("computing is the limit"));
  EXPECT_THAT(text, Not(HasSubstr("Threads mostly wait")));
}

TEST(Plan, ACacheThatWasAskedForIsDoubled) {
  PlanOptions options = Options(1e9);
  options.wishes.cache_bytes = 1_GiB;
  ASSERT_OK_AND_ASSIGN(const PlanReport report, MakePlan(Qwen3(), options));
  EXPECT_EQ(report.now.memory.num_slots, 1_GiB / (41 * 64_KiB));
  bool doubled = false;
  for (const PlanCase& change : report.changes) {
    doubled = doubled || change.memory.num_slots == 2_GiB / (41 * 64_KiB);
  }
  EXPECT_TRUE(doubled);
}

TEST(Plan, LayersMayHaveTheirOwnSlots) {
  const PlannedModel model = Qwen3();
  PlanOptions options = Options(1e9);
  options.wishes.slots_per_layer = 20;
  ASSERT_OK_AND_ASSIGN(const PlanReport report, MakePlan(model, options));
  EXPECT_EQ(report.now.memory.num_slots, 48u * 20);
  const uint64_t hits =
      SimulateHits(options.trace, {.num_positions = 48u * 20, .positions_per_layer = 20});
  const uint64_t shared = SimulateHits(options.trace, {.num_positions = 48u * 20});
  EXPECT_NE(hits, shared) << "or the test shows nothing";
  EXPECT_DOUBLE_EQ(report.now.hits.whole, static_cast<double>(hits) / (24 * 384));
  const auto doubled = std::ranges::find_if(report.changes, [](const PlanCase& change) {
    return change.what == "an expert cache twice as large";
  });
  ASSERT_NE(doubled, report.changes.end());
  EXPECT_EQ(doubled->memory.num_slots, 48u * 40);
  // More than a layer has experts are as many.
  options.memory = MemoryOf(64_GiB);
  options.wishes.slots_per_layer = 1000;
  ASSERT_OK_AND_ASSIGN(const PlanReport all, MakePlan(model, options));
  EXPECT_EQ(all.now.memory.num_slots, 48u * 128);
  EXPECT_EQ(all.now.hits.whole, HitsOf(options.trace, size_t{48} * 128).value().whole);
}

TEST(Plan, TheMiddleOfATextIsWithinTheContext) {
  EXPECT_EQ(MiddleOf(512, 256, 8192), 639u);  // 512 to 767.
  EXPECT_EQ(MiddleOf(1, 20, 512), 10u);
  EXPECT_EQ(MiddleOf(1, 1, 512), 1u);
  EXPECT_EQ(MiddleOf(512, 256, 600), 555u);  // 512 to 599.
  EXPECT_EQ(MiddleOf(5000, 10, 64), 63u);
  EXPECT_EQ(MiddleOf(5, 0, 64), 4u);
  EXPECT_EQ(MiddleOf(UINT32_MAX, SIZE_MAX / 2, 1), 0u);
}

TEST(Plan, ReadsComeAsManyAtOnceAsALayerMisses) {
  // A record for each that fits: nothing is missing but at first. Without room for more than two
  // records nearly all 8 of a layer are.
  PlanOptions options = Options(1e9);
  options.memory = MemoryOf(64_GiB);
  options.trace = MakeRouting(Qwen3().config, Qwen3().layout, 0.5, 200);
  ASSERT_OK_AND_ASSIGN(const size_t few, ReadsAtOnce(Qwen3(), options));
  EXPECT_LE(few, 2u);
  options.wishes.cache_bytes = 2 * 41 * 64_KiB;
  ASSERT_OK_AND_ASSIGN(const size_t all, ReadsAtOnce(Qwen3(), options));
  EXPECT_EQ(all, 8u);
}

TEST(Plan, WhatCannotBePlannedIsSaid) {
  PlanOptions options = Options(1e9);
  options.memory = MemoryOf(1_GiB);
  EXPECT_THAT(MakePlan(Qwen3(), options), Fails(Code::kResourceExhausted, "dense weights"));
  options = Options(1e9);
  options.trace = {};
  options.trace.header = {.num_layers = 4, .num_experts = 32, .experts_per_token = 4};
  EXPECT_THAT(MakePlan(Qwen3(), options),
              Fails(Code::kInvalidArgument,
                    "a model with 4 layers and 0 experts, 32 per layer and 4 at a time, but "
                    "this one has 48 and 6144, 128 and 8"));
  options.trace.header = {
      .num_layers = 48, .num_experts = 128, .experts_per_token = 8, .num_records = 6144};
  EXPECT_THAT(MakePlan(Qwen3(), options), Fails(Code::kInvalidArgument, "no token after it"));
  PlannedModel model = Qwen3();
  options = Options(1e9);
  model.config.layers[5].moe = false;
  options.trace.header.num_records -= 128;
  EXPECT_THAT(MakePlan(model, options),
              Fails(Code::kInvalidArgument,
                    "the trace asks layer 5 for experts, but this model has none there"));
}

TEST(MeasureCompute, RunsEveryShapeCutDown) {
  for (const char* shape : {"tiny-qwen3", "tiny-gpt-oss"}) {
    ASSERT_OK_AND_ASSIGN(const PlannedModel model, FindPlannedModel(shape));
    for (const bool int8 : {false, true}) {
      // At the beginning, and where windows have gone round several times.
      const ComputeOptions options{
          .num_threads = 1, .int8_attention = int8, .position = int8 ? 1000U : 0U, .seconds = 0};
      ASSERT_OK_AND_ASSIGN(const ComputeTimes times, MeasureCompute(model, options, kGoOn));
      EXPECT_GT(times.attention, 0);
      EXPECT_GT(times.experts, 0);
      EXPECT_GT(times.head, 0);
    }
  }
  const std::atomic<bool> stop{true};
  EXPECT_THAT(MeasureCompute(FindPlannedModel("tiny-qwen3").value(), {}, stop),
              Fails(Code::kCancelled, "stopped"));
}

}  // namespace
}  // namespace picchio
