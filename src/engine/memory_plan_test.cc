#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// Qwen3-30B-A3B as docs and config give it: 48 layers of 128 experts, 8 per token, 2,654,208 bytes
// each (in slots of 41 times 64 KiB).
MemoryDemand Qwen3() {
  return {.dense_bytes = 3_GiB,
          .max_context = 40'960,
          .slot_bytes = 41 * 64_KiB,
          .num_moe_layers = 48,
          .num_records = 48 * 128,
          .records_per_token = 48 * 8};
}

// F32 keys and values of 4 heads of 128.
constexpr auto kQwen3Kv = [](uint32_t context) { return uint64_t{context} * 48 * 2 * 4 * 128 * 4; };

// Working memory that no span makes larger, for the figures of everything else.
constexpr auto kWorking = [](uint32_t) { return 256_MiB; };
MemoryNeeds Qwen3Needs() { return {.kv_bytes = kQwen3Kv, .working_bytes = kWorking}; }

MemoryInfo Free(uint64_t bytes) { return {.physical_bytes = 64_GiB, .available_bytes = bytes}; }

TEST(MemoryPlan, DefaultsTakeWhatIsThereButForAReserve) {
  // 16 GiB: reserve 16/20 GiB; 1.5 GiB of KV; the rest is cache.
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(Qwen3(), Qwen3Needs(), {}, Free(16_GiB)));
  EXPECT_EQ(plan.context, 8192u);
  EXPECT_EQ(plan.kv_bytes, 1536_MiB);
  const uint64_t cache = 16_GiB - 16_GiB / 20 - 3_GiB - 256_MiB - 1536_MiB;
  EXPECT_EQ(plan.num_slots, cache / (41 * 64_KiB));
  EXPECT_EQ(plan.cache_bytes, plan.num_slots * 41 * 64_KiB);
  EXPECT_EQ(plan.free_bytes, 16_GiB);
  EXPECT_FALSE(plan.cache_below_token);
  EXPECT_LE(plan.total_bytes() + 16_GiB / 20, 16_GiB);
}

TEST(MemoryPlan, ACacheNeverExceedsTheModel) {
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanMemory(Qwen3(), Qwen3Needs(), {}, Free(60_GiB)));
  EXPECT_EQ(plan.num_slots, 48u * 128);
  ASSERT_OK_AND_ASSIGN(
      plan, PlanMemory(Qwen3(), Qwen3Needs(), {.cache_bytes = std::numeric_limits<uint64_t>::max()},
                       Free(60_GiB)));
  EXPECT_EQ(plan.num_slots, 48u * 128);
  ASSERT_OK_AND_ASSIGN(
      plan, PlanMemory(Qwen3(), Qwen3Needs(),
                       {.slots_per_layer = std::numeric_limits<uint32_t>::max()}, Free(60_GiB)));
  EXPECT_EQ(plan.num_slots, 48u * 128);
}

TEST(MemoryPlan, DefaultContextShrinksToHalfOfWhatItShares) {
  // 4.5 GiB: 1 GiB left after dense, working memory and the least reserve of 256 MiB; half of it
  // holds 2730 positions of 192 KiB, which is 42 blocks of 64.
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                       PlanMemory(Qwen3(), Qwen3Needs(), {}, Free(4608_MiB)));
  EXPECT_EQ(plan.context, 2688u);
  EXPECT_EQ(plan.kv_bytes, 504_MiB);
  EXPECT_EQ(plan.num_slots, (1_GiB - 504_MiB) / (41 * 64_KiB));
  EXPECT_TRUE(plan.cache_below_token);
}

TEST(MemoryPlan, DefaultContextTakesAllBesideAFixedCache) {
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                       PlanMemory(Qwen3(), Qwen3Needs(), {.cache_bytes = 64_MiB}, Free(4608_MiB)));
  EXPECT_EQ(plan.num_slots, 24u);
  // (1 GiB - 24 slots) / 192 KiB = 5133, rounded down to a multiple of 64.
  EXPECT_EQ(plan.context, 5120u);
  ASSERT_OK_AND_ASSIGN(
      const MemoryPlan by_layer,
      PlanMemory(Qwen3(), Qwen3Needs(), {.cache_bytes = 1, .slots_per_layer = 2}, Free(8_GiB)));
  EXPECT_EQ(by_layer.num_slots, 96u);
}

TEST(MemoryPlan, AShortModelKeepsItsOddContext) {
  MemoryDemand demand = Qwen3();
  demand.max_context = 100;
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(demand, Qwen3Needs(), {}, Free(16_GiB)));
  EXPECT_EQ(plan.context, 100u);
}

TEST(MemoryPlan, WhatWasAskedForMayUseUpTheReserve) {
  const MemoryWishes wishes = {.context = 4096, .cache_bytes = 400_MiB};
  const uint64_t exact = 3_GiB + 256_MiB + 768_MiB + 400_MiB / (41 * 64_KiB) * (41 * 64_KiB);
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                       PlanMemory(Qwen3(), Qwen3Needs(), wishes, Free(exact)));
  EXPECT_EQ(plan.total_bytes(), exact);
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), wishes, Free(exact - 1)),
              Fails(Code::kResourceExhausted, "KV cache of 4096 positions 768 MiB"));
}

TEST(MemoryPlan, RefusalsNameTheFiguresAndWhatWouldFit) {
  // A context that is too long: (8 GiB - 3.25 GiB - two slots) / 192 KiB = 25914 positions.
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {.context = 40'000}, Free(8_GiB)),
              Fails(Code::kResourceExhausted,
                    "8.00 GiB of 64.0 GiB are free; a context of at most "
                    "25914 fits, with the smallest cache"));
  // A cache that is too large: 8 - 3.25 - 1.5 GiB = 3.25 GiB, 1298 slots.
  EXPECT_THAT(
      PlanMemory(Qwen3(), Qwen3Needs(), {.context = 8192, .cache_bytes = 5_GiB}, Free(8_GiB)),
      Fails(Code::kResourceExhausted, "at most 1298 slots (3.25 GiB) fits"));
  // Dense weights that are too large, under a limit; the same by a hair.
  MemoryInfo memory = Free(60_GiB);
  memory.cgroup = {.limit_bytes = 3_GiB, .used_bytes = 1_GiB, .limit_file = "/cg/memory.max"};
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {}, memory),
              Fails(Code::kResourceExhausted,
                    "2.00 GiB of 64.0 GiB are free (limit 3.00 GiB in /cg/memory.max); the model "
                    "needs more memory than that whatever the context and the cache"));
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {}, Free(3_GiB + 256_MiB + 2 * 41 * 64_KiB)),
              Fails(Code::kResourceExhausted, "whatever the context"));
}

TEST(MemoryPlan, DemandOfAModel) {
  ModelConfig config;
  config.max_position_embeddings = 1000;
  config.num_experts = 128;
  config.experts_per_token = 8;
  config.num_hidden_layers = 3;
  config.layers = {{.moe = true}, {.moe = false}, {.moe = true}};
  const MemoryDemand demand = DemandOf(config, 1_GiB, 64_KiB);
  EXPECT_EQ(demand.dense_bytes, 1_GiB);
  EXPECT_EQ(demand.slot_bytes, 64_KiB);
  EXPECT_EQ(demand.max_context, 1000u);
  EXPECT_EQ(demand.num_moe_layers, 2u);
  EXPECT_EQ(demand.num_records, 256u);
  EXPECT_EQ(demand.records_per_token, 16u);
}

// A window that is kept whatever the context, and a ring that grows up to it: not a straight line.
TEST(MemoryPlan, KvBytesNeedNotBeLinear) {
  const auto kv = [](uint32_t context) { return 1_GiB + std::min(context, 128u) * 1_MiB; };
  const MemoryNeeds needs{.kv_bytes = kv, .working_bytes = kWorking};
  MemoryDemand demand = Qwen3();
  // 1 GiB and 100 MiB beside dense weights, working memory and a least cache: 100 positions.
  const MemoryInfo memory = Free(3_GiB + 256_MiB + 2 * 41 * 64_KiB + 1_GiB + 100_MiB);
  EXPECT_THAT(PlanMemory(demand, needs, {.context = 101}, memory),
              Fails(Code::kResourceExhausted, "a context of at most 100 fits"));
  EXPECT_OK(PlanMemory(demand, needs, {.context = 100, .cache_bytes = 6_MiB}, memory));
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanMemory(demand, needs, {}, Free(16_GiB)));
  EXPECT_EQ(plan.context, 8192u);
}

TEST(MemoryPlan, SaysWhatItChoseAndWhatDecided) {
  const MemoryDemand demand{.dense_bytes = 1_GiB,
                            .max_context = 1024,
                            .slot_bytes = 4_MiB,
                            .num_moe_layers = 48,
                            .num_records = 6144,
                            .records_per_token = 384,
                            .experts_per_token = 8};
  const auto kv = [](uint32_t) { return 256_MiB; };
  const MemoryNeeds needs{.kv_bytes = kv, .working_bytes = kWorking};
  MemoryInfo memory{.physical_bytes = 64_GiB, .available_bytes = 8_GiB};
  const auto choice = [&](const MemoryWishes& wishes) {
    const Result<MemoryPlan> plan = PlanMemory(demand, needs, wishes, memory);
    EXPECT_OK(plan);
    return plan.has_value() ? plan->CacheChoice() : "";
  };
  // 8192 - 1024 - 256 - 256 - 409.6 MiB in slots of 4.
  EXPECT_EQ(choice({}),
            "expert cache 6.10 GiB, 1561 slots for 25.4 % of 6144 experts, all memory but for a "
            "reserve of 410 MiB (8.00 GiB free)");
  memory.available_bytes = 60_GiB;
  EXPECT_THAT(choice({}), testing::HasSubstr("100.0 % of 6144 experts, room for all of them"));
  EXPECT_THAT(choice({.prefetch = true}), testing::Not(testing::HasSubstr("reading ahead")));
  memory.cgroup = {.limit_bytes = 9_GiB, .used_bytes = 1_GiB, .limit_file = "/cg/memory.max"};
  EXPECT_THAT(choice({}), testing::EndsWith("(8.00 GiB free; limit 9.00 GiB in /cg/memory.max)"));
  EXPECT_THAT(choice({.cache_bytes = 1_GiB}),
              testing::StartsWith("expert cache 1.00 GiB, 256 slots for 4.2 % of 6144 experts, as "
                                  "asked for"));
  EXPECT_THAT(choice({.slots_per_layer = 10}), testing::EndsWith("for each layer as asked for"));
  EXPECT_THAT(choice({.cache_bytes = 1_GiB, .prefetch = true}),
              testing::EndsWith("; 8 slots are for reading ahead"));
  // Twice a layer's must remain.
  EXPECT_THAT(choice({.cache_bytes = 92_MiB, .prefetch = true}), testing::EndsWith("asked for"));
  EXPECT_THAT(choice({.slots_per_layer = 10, .prefetch = true}), testing::EndsWith("asked for"));
}

// Of 16 MiB and 256 KiB a position.
constexpr auto kSpanBytes = [](uint32_t span) { return 16_MiB + uint64_t{span} * 256_KiB; };
MemoryNeeds SpanNeeds() { return {.kv_bytes = kQwen3Kv, .working_bytes = kSpanBytes}; }

Result<MemoryPlan> PlanSpan(const MemoryWishes& wishes, uint64_t free_bytes) {
  return PlanMemory(Qwen3(), SpanNeeds(), wishes, Free(free_bytes));
}

TEST(MemoryPlan, ASpanTakesAQuarterOfWhatItSharesWithTheCache) {
  // 6 GiB: 0.3 GiB of reserve, 3 of weights and 144 MiB for a span of 512 leave 2620.8 MiB, of
  // which 6976 positions take 1308 MiB. A quarter of the rest is 328 MiB: 1312 positions more.
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, PlanSpan({}, 6_GiB));
  EXPECT_EQ(plan.context, 6976u);
  EXPECT_EQ(plan.prefill_span, 1824u);
  EXPECT_EQ(plan.working_bytes, kSpanBytes(1824));
  EXPECT_EQ(plan.num_slots,
            (6_GiB - 6_GiB / 20 - 3_GiB - kSpanBytes(1824) - plan.kv_bytes) / (41 * 64_KiB));
  EXPECT_THAT(plan.Breakdown(),
              testing::EndsWith("working memory of spans of 1824 positions 472 MiB"));
}

TEST(MemoryPlan, ASpanIsNoLongerThanIsOfUse) {
  const auto span = [](const MemoryWishes& wishes, uint64_t free_bytes) {
    const auto plan = PlanSpan(wishes, free_bytes);
    EXPECT_OK(plan);
    return plan.has_value() ? plan->prefill_span : 0;
  };
  EXPECT_EQ(span({}, 60_GiB), 4096u);
  EXPECT_EQ(span({.longest_prompt = 1000}, 60_GiB), 1000u);
  EXPECT_EQ(span({.longest_prompt = 7}, 6_GiB), 7u);
  EXPECT_EQ(span({.context = 300}, 60_GiB), 300u);
  EXPECT_EQ(span({.context = 300, .prefill_span = 512}, 60_GiB), 300u);
  EXPECT_EQ(span({.prefill_span = 8000}, 60_GiB), 8000u);
  EXPECT_EQ(span({.prefill_span = 8000, .longest_prompt = 100}, 60_GiB), 100u);
  EXPECT_EQ(span({.prefill_span = 16}, 60_GiB), 16u);
}

TEST(MemoryPlan, ASpanTakesWhatNoCacheUses) {
  // Beside a fixed cache, all that a fixed context leaves: of 5 GiB 256 MiB are kept, and 3 GiB of
  // weights, 768 MiB of KV and 39 slots of 2.5625 MiB leave 924.0625 MiB.
  ASSERT_OK_AND_ASSIGN(MemoryPlan plan, PlanSpan({.context = 4096, .cache_bytes = 100_MiB}, 5_GiB));
  EXPECT_EQ(plan.prefill_span, 3632u);
  EXPECT_EQ(plan.num_slots, 39u);
  // A default context of 2752 positions takes all but the 8 MiB that are no whole block more.
  ASSERT_OK_AND_ASSIGN(plan, PlanSpan({.cache_bytes = 100_MiB}, 4_GiB));
  EXPECT_EQ(plan.prefill_span, 544u);
  // Every expert is cached, and a little is left over for a span that asked for no memory at first.
  MemoryDemand small = Qwen3();
  small.num_records = 100;
  ASSERT_OK_AND_ASSIGN(plan, PlanMemory(small, SpanNeeds(), {.context = 4096}, Free(5_GiB)));
  EXPECT_EQ(plan.num_slots, 100u);
  EXPECT_EQ(plan.prefill_span, 3007u);
}

TEST(MemoryPlan, ASpanThatWasAskedForIsRefusedWithTheFigures) {
  EXPECT_THAT(PlanSpan({.context = 8000, .prefill_span = 30'000}, 6_GiB),
              Fails(Code::kResourceExhausted, "spans of 8000 positions 1.97 GiB"));
  EXPECT_OK(PlanSpan({.context = 8000}, 6_GiB));
}

TEST(MemoryPlan, WordsThatMakeNoSense) {
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {.context = 0}, Free(16_GiB)),
              Fails(Code::kInvalidArgument, "the context is 0, expected 1 to 40960"));
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {.context = 40'961}, Free(16_GiB)),
              Fails(Code::kInvalidArgument, "the context is 40961"));
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {.cache_bytes = 3_MiB}, Free(16_GiB)),
              Fails(Code::kInvalidArgument, "1 slots of 2.56 MiB, expected at least 2"));
  EXPECT_THAT(PlanMemory(Qwen3(), Qwen3Needs(), {.slots_per_layer = 0}, Free(16_GiB)),
              Fails(Code::kInvalidArgument, "0 slots"));
}

}  // namespace
}  // namespace picchio
