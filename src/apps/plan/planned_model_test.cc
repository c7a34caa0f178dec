#include "apps/plan/planned_model.h"

#include "apps/run/engine_setup.h"
#include "apps/synth/synth.h"
#include "model/dense_weights.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(StandInWeights, AnyPiecesAreTheWhole) {
  ASSERT_OK_AND_ASSIGN(const PlannedModel model, FindPlannedModel("tiny-gpt-oss"));
  ASSERT_OK_AND_ASSIGN(const auto file, StandInWeights::Create(model.config, {.int8_head = true}));
  std::vector<std::byte> whole(file->size());
  ASSERT_OK(file->ReadAt(0, whole));
  std::vector<std::byte> pieces(file->size());
  for (size_t at = 0, size = 1; at < pieces.size(); at += size, size = size * 7 % 5003) {
    size = std::min(size, pieces.size() - at);
    ASSERT_OK(file->ReadAt(at, std::span(pieces).subspan(at, size)));
  }
  EXPECT_EQ(whole, pieces);
  EXPECT_THAT(file->ReadAt(file->size(), std::span(whole).first(1)),
              Fails(Code::kInvalidArgument, "stand-in weights"));
}

// A shape is planned as the model that synth makes of it is run.
TEST(PlannedModel, AShapeIsWhatSynthMakesOfIt) {
  for (const char* shape : {"tiny-qwen3", "tiny-gpt-oss"}) {
    TemporaryFolder folder;
    ASSERT_OK(Synthesize(folder / "bf16", {.shape = shape, .skew = 0.5}, 1, kGoOn));
    ASSERT_OK(Synthesize(folder / "int8", {.shape = shape, .int8_dense = true}, 1, kGoOn));
    ASSERT_OK_AND_ASSIGN(const PlannedModel planned, FindPlannedModel(shape));
    ASSERT_OK_AND_ASSIGN(const PlannedModel bf16, FindPlannedModel((folder / "bf16").string()));
    ASSERT_OK_AND_ASSIGN(const PlannedModel int8, FindPlannedModel((folder / "int8").string()));
    EXPECT_EQ(planned.config.num_hidden_layers, bf16.config.num_hidden_layers);
    EXPECT_EQ(planned.layout.record_bytes, bf16.layout.record_bytes);
    EXPECT_EQ(planned.slot_bytes, bf16.slot_bytes);
    EXPECT_EQ(planned.dense_bytes, bf16.dense_bytes);
    EXPECT_EQ(planned.int8_dense_bytes, int8.dense_bytes);
    EXPECT_EQ(bf16.int8_dense_bytes, int8.dense_bytes);
    EXPECT_EQ(int8.int8_dense_bytes, int8.dense_bytes);
    EXPECT_LT(int8.dense_bytes, bf16.dense_bytes);
    EXPECT_FALSE(bf16.types.int8_attention);
    EXPECT_TRUE(int8.types.int8_attention && int8.types.int8_head);
    EXPECT_EQ(bf16.skew, 0.5);
    EXPECT_EQ(planned.skew, std::nullopt);
    EXPECT_EQ(planned.folder, std::nullopt);
    EXPECT_EQ(bf16.folder, folder / "bf16");

    // And so is its memory.
    ASSERT_OK_AND_ASSIGN(const auto setup, EngineSetup::Open(folder / "bf16", {.num_threads = 1}));
    ASSERT_OK_AND_ASSIGN(const MemoryPlan run, setup->Plan(64));
    ASSERT_OK_AND_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
    ASSERT_OK_AND_ASSIGN(const MemoryPlan plan,
                         PlanRun(planned.DemandFor(1, false), {.longest_prompt = 64}, memory));
    EXPECT_EQ(run.num_slots, plan.num_slots);
    EXPECT_EQ(run.total_bytes(), plan.total_bytes());
  }
}

TEST(PlannedModel, AnythingElseIsRefused) {
  EXPECT_THAT(FindPlannedModel("qwen-30b"),
              Fails(Code::kInvalidArgument,
                    "\"qwen-30b\" is no folder of a model and none of the shapes qwen3-30b-a3b"));
  TemporaryFolder folder;
  EXPECT_THAT(FindPlannedModel(folder.path().string()), testing::Not(IsOk()));
}

}  // namespace
}  // namespace picchio
