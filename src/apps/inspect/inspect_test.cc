#include "apps/inspect/inspect.h"

#include "apps/cli_test_support.h"
#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/convert.h"
#include "apps/run/engine_setup.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// qwen3_moe_tiny: hidden 128, 4 MoE layers of 12 experts, 4 per token, inner width 64. INT4:
// gate_up 128 x 128 and down 128 x 64 weights of half a byte, and an F32 scale for every 64 of
// them.
TEST(InspectModel, CountsBytesFromTheShape) {
  TemporaryFolder out;
  ASSERT_OK(Convert(FixtureCheckpoint("qwen3_moe_tiny"), out.path(), {}, 2, kGoOn));
  const uint64_t weights = 128 * 128 + 128 * 64;
  const uint64_t record = weights / 2 + weights / 64 * 4;
  ASSERT_OK_AND_ASSIGN(const Inspection inspection, InspectModel(out.path(), {1 << 10, 1 << 30}));
  EXPECT_EQ(inspection.record_bytes, record);
  EXPECT_EQ(inspection.expert_bytes, 48 * record);
  // The store's blocks are of 4 KiB: what is read, and what a slot takes.
  const uint64_t padded = (record + 4095) / 4096 * 4096;
  EXPECT_EQ(inspection.read_bytes, padded);
  EXPECT_EQ(inspection.token_bytes, 16 * padded);
  EXPECT_EQ(inspection.expert_scheme, "int4_mse");
  EXPECT_EQ(inspection.context, 8192u);
  // Keys and values of 2 heads of 32 in 4 layers, F32.
  const uint64_t position = 2 * 2 * 32 * 4 * 4;
  EXPECT_EQ(inspection.kv_bytes, uint64_t{8192} * position);
  ASSERT_EQ(inspection.memory.size(), 2u);
  EXPECT_EQ(inspection.memory[0].num_slots, 0u);
  EXPECT_EQ(inspection.memory[0].context, 0u);
  EXPECT_EQ(inspection.memory[1].num_slots, 48u);
  EXPECT_EQ(inspection.memory[1].context, 8192u);
  EXPECT_EQ(inspection.memory[1].cached_share, 1.0);
  EXPECT_EQ(inspection.memory[1].read_bytes_per_token, 0u);
}

// From where nothing fits to where all does, chunks of slots at a time: the rows hold what they say
// beside the reserve of a run (256 MiB at least), and the same as a run plans.
TEST(InspectModel, RowsAreWhatARunWouldPlan) {
  const Path demo = DemoModel();
  constexpr uint32_t kAll = 4 * 32;        // Layers, and experts of each.
  constexpr uint32_t kLeastContext = 256;  // Where even the reserve gives way.
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = uint64_t{200} << 20; bytes < uint64_t{330} << 20; bytes += 64 << 10) {
    sizes.push_back(bytes);
  }
  ASSERT_OK_AND_ASSIGN(const Inspection inspection, InspectModel(demo, sizes));
  ASSERT_OK_AND_ASSIGN(const auto setup, EngineSetup::Open(demo, {}));
  ASSERT_FALSE(inspection.memory.empty());
  size_t between = 0;
  for (const MemoryRow& row : inspection.memory) {
    const auto plan = setup->PlanFor(row.memory_bytes);
    ASSERT_EQ(plan.has_value(), row.num_slots > 0);
    if (!plan.has_value()) continue;
    EXPECT_EQ(row.num_slots, plan->num_slots);
    EXPECT_EQ(row.context, plan->context);
    EXPECT_NEAR(row.cached_share, static_cast<double>(row.num_slots) / kAll, 1e-12);
    if (row.context == kLeastContext || row.num_slots == kAll) continue;
    ++between;
    EXPECT_LE(inspection.dense_bytes +
                  uint64_t{row.context} * (inspection.kv_bytes / inspection.context) +
                  row.num_slots * inspection.read_bytes + (uint64_t{256} << 20),
              row.memory_bytes);
    EXPECT_EQ(row.read_bytes_per_token,
              static_cast<uint64_t>(static_cast<double>(inspection.token_bytes) *
                                    (1 - static_cast<double>(row.num_slots) / kAll)));
  }
  EXPECT_GT(between, 3u);
  EXPECT_EQ(inspection.memory.back().num_slots, kAll);
  ASSERT_OK_AND_ASSIGN(const MemoryPlan here, setup->Plan());
  EXPECT_EQ(here.num_slots, kAll);
}

TEST(InspectModel, TableAndJsonSayTheSame) {
  TemporaryFolder out;
  ASSERT_OK(Convert(FixtureCheckpoint("gpt_oss_tiny"), out.path(), {}, 2, kGoOn));
  ASSERT_OK_AND_ASSIGN(const Inspection inspection, InspectModel(out.path(), {1 << 10, 1 << 30}));
  ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(InspectionJson(inspection), "report"));
  EXPECT_EQ(json["architecture"], "GptOssForCausalLM");
  EXPECT_EQ(json["expert_scheme"], "mxfp4");
  EXPECT_EQ(json["num_records"], 32);
  EXPECT_EQ(json["bytes_per_token"], inspection.token_bytes);
  const std::string table = InspectionTable(inspection);
  for (const char* part : {"GptOssForCausalLM", "mxfp4", "8 a layer, 4 per token", "32 of",
                           "does not hold", "100.0 %"}) {
    EXPECT_THAT(table, testing::HasSubstr(part));
  }
}

TEST(InspectModel, RefusesWhatIsNoModel) {
  EXPECT_THAT(InspectModel(FixtureCheckpoint("gpt_oss_tiny"), {}),
              Fails(Code::kNotFound, "picchio convert"));
}

}  // namespace
}  // namespace picchio
