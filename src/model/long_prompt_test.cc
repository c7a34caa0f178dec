// Prompts far beyond the sliding windows and the greatest planned span: whatever parts they are
// taken in, the same bits.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "model/fixture_test_support.h"
#include "model/forward_pass.h"
#include "support/test_support.h"

namespace picchio {
namespace {

struct LongCase {
  const char* fixture;
  PayloadKind kind;
  Compute compute;
};

void PrintTo(const LongCase& one, std::ostream* out) { *out << one.fixture; }

class LongPrompt : public testing::TestWithParam<LongCase> {
 protected:
  std::vector<float> Logits(TestEngine::Options options, size_t span) const {
    options.max_rows = span;
    options.compute = GetParam().compute;
    TestEngine engine = TestEngine::Make(fixture_, experts_, options);
    KvCache kv = engine.NewKv(static_cast<uint32_t>(ids_.size()));
    std::vector<float> logits;
    for (size_t done = 0; done < ids_.size(); done += span) {
      const auto part = std::span(ids_).subspan(done, std::min(span, ids_.size() - done));
      const std::vector<float> of_part = engine.Step(kv, part);
      logits.insert(logits.end(), of_part.begin(), of_part.end());
    }
    return logits;
  }

  const Fixture fixture_ = Fixture::Open(TestData("fixtures/" + std::string(GetParam().fixture)));
  const ExpertRecords experts_ = MakeRecords(fixture_, GetParam().kind);
  const std::vector<int32_t> ids_ = fixture_.Golden<int32_t>("p4400.ids");
};

INSTANTIATE_TEST_SUITE_P(
    All, LongPrompt,
    testing::Values(LongCase{"qwen3_moe_long", PayloadKind::kInt4, Compute::kInt8},
                    LongCase{"gpt_oss_long", PayloadKind::kMxfp4, Compute::kInt8},
                    LongCase{"gpt_oss_long", PayloadKind::kBf16, Compute::kF32}),
    [](const auto& param_info) {
      const LongCase& one = param_info.param;
      return std::string(one.fixture) + (one.compute == Compute::kInt8 ? "_q8" : "_f32");
    });

TEST_P(LongPrompt, SameBitsInAnyParts) {
  ASSERT_GT(ids_.size(), 4096u);
  const std::vector<float> whole = Logits({.threads = 1}, ids_.size());
  ASSERT_EQ(whole.size(), ids_.size() * fixture_.config.vocab_size);
  EXPECT_TRUE(Logits({.threads = 2}, 4096) == whole) << "2 threads, spans of 4,096";
  EXPECT_TRUE(Logits({.threads = 3, .num_slots = 2}, 999) == whole)
      << "3 threads, spans of 999, 2 slots";
}

}  // namespace
}  // namespace picchio
