#include "format/expert_container.h"

#include "support/test_support.h"

namespace picchio {
namespace {

ExpertRecordLayout MakeLayout(PayloadKind kind, RecordVersion version, uint32_t hidden_size,
                              uint32_t intermediate_size, bool has_biases) {
  return ExpertRecordLayout::Make(kind, version, hidden_size, intermediate_size, has_biases)
      .value();
}

std::string Describe(const std::vector<ExpertTensor>& tensors) {
  std::string text;
  for (const ExpertTensor& t : tensors) {
    text += fmt::format("{} {} {} {}+{}\n", t.name, DtypeName(t.dtype), ShapeText(t.shape),
                        t.part.offset, t.part.bytes);
  }
  return text;
}

// Shapes of Qwen3-30B-A3B: hidden 2048, 768 per expert; 2,654,208 bytes are the published figure.
TEST(ExpertContainerTest, Int4TensorsAreTheRecordInOrder) {
  const auto layout = MakeLayout(PayloadKind::kInt4, RecordVersion::kV2, 2048, 768, false);
  EXPECT_EQ(Describe(ExpertTensors(layout, 47, 127)),
            "model.layers.47.mlp.experts.gate_up_proj.127 U8 [1572864] 0+1572864\n"
            "model.layers.47.mlp.experts.gate_up_proj.127.qs F32 [49152] 1572864+196608\n"
            "model.layers.47.mlp.experts.down_proj.127 U8 [786432] 1769472+786432\n"
            "model.layers.47.mlp.experts.down_proj.127.qs F32 [24576] 2555904+98304\n");
  EXPECT_EQ(layout.record_bytes, 2654208u);
  EXPECT_TRUE(ExpertBiasTensors(layout, 47, 128).empty());
}

// Shapes of gpt-oss-20b: hidden and intermediate 2880, 32 experts.
TEST(ExpertContainerTest, Mxfp4TensorsKeepTheCheckpointsShapes) {
  const auto layout = MakeLayout(PayloadKind::kMxfp4, RecordVersion::kV3, 2880, 2880, true);
  EXPECT_EQ(Describe(ExpertTensors(layout, 0, 5)),
            "model.layers.0.mlp.experts.gate_up_proj.5.blocks U8 [5760,90,16] 0+8294400\n"
            "model.layers.0.mlp.experts.gate_up_proj.5.scales U8 [5760,90] 8294400+518400\n"
            "model.layers.0.mlp.experts.down_proj.5.blocks U8 [2880,90,16] 8812800+4147200\n"
            "model.layers.0.mlp.experts.down_proj.5.scales U8 [2880,90] 12960000+259200\n");
  EXPECT_EQ(Describe(ExpertBiasTensors(layout, 3, 32)),
            "model.layers.3.mlp.experts.gate_up_proj_bias BF16 [32,5760] 13219200+23040\n"
            "model.layers.3.mlp.experts.down_proj_bias BF16 [32,2880] 13242240+11520\n");
}

TEST(ExpertContainerTest, Bf16TensorsAreMatrices) {
  const auto layout = MakeLayout(PayloadKind::kBf16, RecordVersion::kV3, 10, 3, false);
  EXPECT_EQ(Describe(ExpertTensors(layout, 1, 0)),
            "model.layers.1.mlp.experts.gate_up_proj.0 BF16 [6,10] 0+120\n"
            "model.layers.1.mlp.experts.down_proj.0 BF16 [10,3] 128+60\n");
}

}  // namespace
}  // namespace picchio
