#include "apps/synth/synth.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "apps/pack/store_test_support.h"
#include "apps/run/engine.h"
#include "apps/synth/embedded_tokenizer.h"
#include "apps/synth/expert_popularity.h"
#include "apps/synth/synth_weights.h"
#include "apps/verify/verify.h"
#include "model/kv_cache.h"
#include "model/step_observer.h"

namespace picchio {
namespace {

SynthOptions Tiny(std::string_view shape, double skew) {
  return {.shape = std::string(shape), .skew = skew};
}

// Which experts each token of a step went to.
class Routing : public StepObserver {
 public:
  explicit Routing(const ModelConfig& config)
      : experts_per_token_(config.experts_per_token),
        uses_(config.num_hidden_layers, std::vector<double>(config.num_experts)),
        last_(config.num_hidden_layers) {}

  void OnRouting(uint32_t layer, std::span<const float>, std::span<uint32_t> ids,
                 std::span<float>) override {
    for (; !ids.empty(); ids = ids.subspan(experts_per_token_)) {
      std::set<uint32_t> now(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(experts_per_token_));
      for (const uint32_t expert : now) {
        uses_[layer][expert] += 1;
        shared_ += last_[layer].contains(expert) ? 1 : 0;
      }
      total_ += experts_per_token_;
      last_[layer] = std::move(now);
    }
  }

  // Shares of tokens, as SynthWeights::SharesOf.
  std::vector<double> Shares(uint32_t layer) const {
    std::vector<double> shares = uses_[layer];
    const double uses = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share *= static_cast<double>(experts_per_token_) / uses;
    return shares;
  }
  // Of a token's experts, those that the token before it used too.
  double Overlap() const { return static_cast<double>(shared_) / static_cast<double>(total_); }

 private:
  const size_t experts_per_token_;
  std::vector<std::vector<double>> uses_;
  std::vector<std::set<uint32_t>> last_;
  size_t shared_ = 0;
  size_t total_ = 0;
};

// Half of the sum of differences, as a share of all uses: 0 where equal, 1 where nothing is common.
double TotalVariation(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2 / std::accumulate(a.begin(), a.end(), 0.0);
}

class SynthModel : public testing::Test {
 protected:
  void Make(const SynthOptions& options) {
    ASSERT_OK(Synthesize(model_, options, 2, kGoOn));
    ASSERT_OK_AND_ASSIGN(engine_, Engine::Open(model_, {.num_threads = 2}));
    std::vector<int32_t> tokens;
    for (int32_t id = 0; id < engine_->tokenizer()->vocab_size(); ++id) {
      if (!engine_->tokenizer()->IsSpecial(id)) tokens.push_back(id);
    }
    weights_.emplace(engine_->config(), std::move(tokens), options.skew, options.seed);
  }

  // Greedy ids after the walk's first token.
  std::vector<int32_t> Generate(uint64_t count) {
    GenerationOptions options{.max_tokens = count};
    options.sampling.temperature = 0;
    auto session = engine_->NewSession();
    EXPECT_OK(session);
    auto generation = Generation::Create({weights_->walk().order()[0]}, options,
                                         session->vocab_size(), session->context(), nullptr);
    EXPECT_OK(generation);
    EXPECT_OK(session->Generate(*generation, {}));
    return {generation->generated().begin(), generation->generated().end()};
  }

  // Of the first `count` tokens of the walk.
  Routing Route(size_t count) {
    Routing routing(engine_->config());
    auto kv = KvCache::Create(engine_->config(), static_cast<uint32_t>(count));
    EXPECT_OK(kv);
    for (size_t done = 0; done < count; done += 512) {
      const auto span = weights_->walk().order().subspan(done, std::min<size_t>(512, count - done));
      const SequenceInput input{&*kv, span, LogitsWanted::kNone};
      EXPECT_OK(engine_->forward().Step(
          {&input, 1}, [](const LogitsRow&) { return Status::Ok(); },
          [](uint32_t) { return Status::Ok(); }, &routing));
    }
    return routing;
  }

  void ExpectShares(const Routing& routing, double bound) {
    for (uint32_t layer = 0; layer < engine_->config().num_hidden_layers; ++layer) {
      EXPECT_LT(TotalVariation(weights_->SharesOf(layer), routing.Shares(layer)), bound) << layer;
    }
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  std::unique_ptr<Engine> engine_;
  std::optional<SynthWeights> weights_;
};

TEST_F(SynthModel, IsWholeAndSaysWhereItIsFrom) {
  ASSERT_OK_AND_ASSIGN(const SynthReport made, Synthesize(model_, Tiny("tiny-qwen3", 1), 2, kGoOn));
  ASSERT_OK_AND_ASSIGN(const VerifyReport report, VerifyModel(model_, 2, kGoOn));
  EXPECT_EQ(report.model_id, made.model_id);
  EXPECT_EQ(report.unlisted, std::vector<std::string>());
  EXPECT_EQ(ReadAll(model_ / "tokenizer.json"), EmbeddedTokenizer());
  EXPECT_EQ(std::string(EmbeddedTokenizer()),
            ReadAll(TestData("../../models/demo/tokenizer.json")));
  EXPECT_THAT(ReadAll(model_ / kSynthName), testing::HasSubstr("\"shape\": \"tiny-qwen3\""));
  EXPECT_FALSE(SomethingExists(folder_ / "model.picchio-tmp"));
}

TEST_F(SynthModel, TextWandersThroughTheVocabulary) {
  Make(Tiny("tiny-qwen3", 1));
  const std::vector<int32_t> ids = Generate(300);
  ASSERT_EQ(ids.size(), 300U);
  const auto expected = weights_->walk().order().subspan(1, 300);
  EXPECT_TRUE(std::ranges::equal(ids, expected));
}

// 2048 tokens use each of 32 experts 256 times: a share is known to 6 %, and the sum of 32 such
// errors is a total variation of 0.025.
TEST_F(SynthModel, WithoutSkewExpertsAreUsedEvenly) {
  Make(Tiny("tiny-qwen3", 0));
  const Routing routing = Route(2048);
  ExpectShares(routing, 0.06);
  EXPECT_NEAR(routing.Overlap(), 4.0 / 32, 0.02);
}

TEST_F(SynthModel, PopularityFollowsTheLaw) {
  Make(Tiny("tiny-qwen3", 1));
  const Routing routing = Route(2048);
  ExpectShares(routing, 0.08);
  // The bound tells the law from others: from even use, and from the same law of another layer.
  const std::vector<double> even(32, 4.0 / 32);
  EXPECT_GT(TotalVariation(even, routing.Shares(0)), 0.3);
  EXPECT_GT(TotalVariation(weights_->SharesOf(1), routing.Shares(0)), 0.3);
  // Neighbours share more than popularity alone makes them, the sum of squared shares.
  double alone = 0;
  for (const double share : ExpertShares(32, 4, 1)) alone += share * share / 4;
  EXPECT_GT(routing.Overlap(), alone + 0.08);
  EXPECT_LT(routing.Overlap(), alone + 0.25);
}

TEST_F(SynthModel, GptOssIsLikewise) {
  Make(Tiny("tiny-gpt-oss", 0.7));
  ASSERT_OK(VerifyModel(model_, 2, kGoOn));
  EXPECT_TRUE(std::ranges::equal(Generate(100), weights_->walk().order().subspan(1, 100)));
  ExpectShares(Route(1024), 0.08);
}

TEST_F(SynthModel, BytesFollowFromTheOptionsAlone) {
  const auto contents = [&](std::string_view name, const SynthOptions& options, int threads) {
    EXPECT_OK(Synthesize(folder_ / name, options, threads, kGoOn));
    return FolderContents(folder_ / name);
  };
  SynthOptions options = Tiny("tiny-qwen3", 1);
  options.num_layers = 2;
  options.int8_dense = true;
  const auto first = contents("a", options, 1);
  EXPECT_TRUE(first == contents("b", options, 3));
  options.seed = 2;
  EXPECT_FALSE(first.at("manifest.json") == contents("c", options, 2).at("manifest.json"));
}

TEST_F(SynthModel, Int8DenseIsSmallerAndRuns) {
  SynthOptions options = Tiny("tiny-qwen3", 1);
  ASSERT_OK_AND_ASSIGN(const SynthReport bf16, Synthesize(folder_ / "bf16", options, 2, kGoOn));
  options.int8_dense = true;
  Make(options);
  ASSERT_OK(VerifyModel(model_, 2, kGoOn));
  EXPECT_LT(std::filesystem::file_size(model_ / "dense.safetensors"), bf16.dense_bytes);
  EXPECT_TRUE(std::ranges::equal(Generate(50), weights_->walk().order().subspan(1, 50)));
}

TEST_F(SynthModel, WhatIsThereIsNotWrittenOver) {
  std::filesystem::create_directory(model_);
  WriteAll(model_ / "mine", "x");
  EXPECT_THAT(Synthesize(model_, Tiny("tiny-qwen3", 0), 1, kGoOn),
              Fails(Code::kInvalidArgument, "is there already"));
  EXPECT_EQ(ReadAll(model_ / "mine"), "x");
  std::filesystem::remove(model_ / "mine");
  EXPECT_OK(Synthesize(model_, Tiny("tiny-qwen3", 0), 1, kGoOn));
  EXPECT_THAT(Synthesize(model_, Tiny("tiny-qwen3", 0), 1, kGoOn),
              Fails(Code::kInvalidArgument, "is there already"));
}

TEST_F(SynthModel, BadOptionsAreNamed) {
  EXPECT_THAT(Synthesize(model_, Tiny("tiny-qwen3", -1), 1, kGoOn),
              Fails(Code::kInvalidArgument, "skew is -1"));
  EXPECT_THAT(Synthesize(model_, Tiny("huge", 0), 1, kGoOn),
              Fails(Code::kInvalidArgument, "\"huge\" is no shape"));
  EXPECT_FALSE(SomethingExists(folder_ / "model.picchio-tmp"));
}

}  // namespace
}  // namespace picchio
