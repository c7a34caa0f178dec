#include "apps/inspect/inspect.h"

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/convert.h"
#include "support/test_support.h"

namespace picchio {
namespace {

const std::atomic<bool> kGoOn{false};

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
  EXPECT_EQ(inspection.token_bytes, 16 * record);
  EXPECT_EQ(inspection.expert_scheme, "int4_mse");
  EXPECT_EQ(inspection.context, 8192u);
  // Keys and values of 2 heads of 32 in 4 layers, F32.
  EXPECT_EQ(inspection.kv_bytes, uint64_t{8192} * 2 * 2 * 32 * 4 * 4);
  ASSERT_EQ(inspection.memory.size(), 2u);
  EXPECT_EQ(inspection.memory[0].num_slots, 0u);
  EXPECT_EQ(inspection.memory[1].num_slots, 48u);
  EXPECT_EQ(inspection.memory[1].cached_share, 1.0);
  EXPECT_EQ(inspection.memory[1].read_bytes_per_token, 0u);

  // A memory for half of the experts halves the reads.
  const uint64_t half = inspection.dense_bytes + inspection.kv_bytes + 24 * record;
  ASSERT_OK_AND_ASSIGN(const Inspection halved, InspectModel(out.path(), {half}));
  EXPECT_EQ(halved.memory[0].num_slots, 24u);
  EXPECT_EQ(halved.memory[0].read_bytes_per_token, 8 * record);
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
