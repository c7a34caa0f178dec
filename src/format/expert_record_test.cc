#include "format/expert_record.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using Layout = ExpertRecordLayout;

// The published sizes: Qwen3-30B-A3B as INT4, gpt-oss as INT4 and as native MXFP4.
TEST(ExpertRecord, HasThePublishedSizes) {
  ASSERT_OK_AND_ASSIGN(const Layout qwen,
                       Layout::Make(PayloadKind::kInt4, RecordVersion::kV2, 2048, 768, false));
  EXPECT_EQ(qwen.record_bytes, 2654208u);
  ASSERT_OK_AND_ASSIGN(const Layout gpt_oss,
                       Layout::Make(PayloadKind::kInt4, RecordVersion::kV2, 2880, 2880, false));
  EXPECT_EQ(gpt_oss.record_bytes, 13996800u);
  ASSERT_OK_AND_ASSIGN(const Layout mxfp4,
                       Layout::Make(PayloadKind::kMxfp4, RecordVersion::kV3, 2880, 2880, false));
  EXPECT_EQ(mxfp4.record_bytes, 13219200u);
}

TEST(ExpertRecord, VersionTwoIsPacked) {
  // hidden 96 (a full and a half group), intermediate 2: rows that are no multiple of 64 bytes.
  ASSERT_OK_AND_ASSIGN(const Layout layout,
                       Layout::Make(PayloadKind::kInt4, RecordVersion::kV2, 96, 2, false));
  EXPECT_EQ(layout.gate_up.offset, 0u);
  EXPECT_EQ(layout.gate_up.bytes, 4u * 48);
  EXPECT_EQ(layout.gate_up_scales.offset, 192u);
  EXPECT_EQ(layout.gate_up_scales.bytes, 4u * 2 * 4);
  EXPECT_EQ(layout.down.offset, 224u);
  EXPECT_EQ(layout.down.bytes, 96u);
  EXPECT_EQ(layout.down_scales.offset, 320u);
  EXPECT_EQ(layout.down_scales.bytes, 96u * 4);
  EXPECT_EQ(layout.gate_up_bias.bytes, 0u);
  EXPECT_EQ(layout.record_bytes, 704u);
}

TEST(ExpertRecord, VersionThreeAlignsItsParts) {
  ASSERT_OK_AND_ASSIGN(const Layout layout,
                       Layout::Make(PayloadKind::kMxfp4, RecordVersion::kV3, 32, 32, true));
  EXPECT_EQ(layout.gate_up.bytes, 64u * 16);
  EXPECT_EQ(layout.gate_up_scales.offset, 1024u);
  EXPECT_EQ(layout.gate_up_scales.bytes, 64u);
  EXPECT_EQ(layout.down.offset, 1088u);
  EXPECT_EQ(layout.down.bytes, 32u * 16);
  EXPECT_EQ(layout.down_scales.offset, 1600u);
  EXPECT_EQ(layout.down_scales.bytes, 32u);
  EXPECT_EQ(layout.gate_up_bias.offset, 1664u);  // 1632 rounded up.
  EXPECT_EQ(layout.gate_up_bias.bytes, 64u * 4);
  EXPECT_EQ(layout.down_bias.offset, 1920u);
  EXPECT_EQ(layout.down_bias.bytes, 32u * 4);
  EXPECT_EQ(layout.record_bytes, 2048u);
}

TEST(ExpertRecord, Bf16HasNoScales) {
  ASSERT_OK_AND_ASSIGN(const Layout layout,
                       Layout::Make(PayloadKind::kBf16, RecordVersion::kV3, 3, 5, false));
  EXPECT_EQ(layout.gate_up.bytes, 10u * 3 * 2);
  EXPECT_EQ(layout.gate_up_scales.bytes, 0u);
  EXPECT_EQ(layout.down.offset, 64u);
  EXPECT_EQ(layout.down.bytes, 3u * 5 * 2);
  EXPECT_EQ(layout.record_bytes, 94u);
}

TEST(ExpertRecord, RefusesWhatItCannotHold) {
  const auto make = [](PayloadKind kind, RecordVersion version, uint32_t hidden, uint32_t inter,
                       bool biases) { return Layout::Make(kind, version, hidden, inter, biases); };
  EXPECT_THAT(make(PayloadKind::kMxfp4, RecordVersion::kV2, 64, 64, false),
              Fails(Code::kUnsupported, "version 2"));
  EXPECT_THAT(make(PayloadKind::kInt4, RecordVersion::kV2, 64, 64, true),
              Fails(Code::kUnsupported, "version 2"));
  EXPECT_THAT(make(PayloadKind::kInt4, RecordVersion::kV3, 63, 64, false),
              Fails(Code::kUnsupported, "hidden_size is 63"));
  EXPECT_THAT(make(PayloadKind::kMxfp4, RecordVersion::kV3, 64, 48, false),
              Fails(Code::kUnsupported, "intermediate_size is 48"));
  EXPECT_THAT(make(PayloadKind::kBf16, RecordVersion::kV3, 0, 1, false),
              Fails(Code::kUnsupported, "hidden_size is 0"));
  EXPECT_THAT(make(PayloadKind::kBf16, RecordVersion::kV3, 1, (1U << 20) + 1, false),
              Fails(Code::kUnsupported, "intermediate_size"));
  EXPECT_THAT(make(static_cast<PayloadKind>(3), RecordVersion::kV3, 64, 64, false),
              Fails(Code::kUnsupported, "payload kind 3"));
}

}  // namespace
}  // namespace picchio
