// What the forward pass refuses, and how a run ends whose numbers are none.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "model/fixture_test_support.h"
#include "model/forward_pass.h"
#include "model/tensor_set_test_support.h"

namespace picchio {
namespace {

class BadInput : public testing::Test {
 protected:
  const Fixture fixture_ = Fixture::Open(TestData("fixtures/qwen3_moe_tiny"));
  const ExpertRecords experts_ = MakeRecords(fixture_, PayloadKind::kBf16);
  const TestEngine engine_ = TestEngine::Make(fixture_, experts_, {.max_rows = 8});

  Status Step(KvCache& kv, const std::vector<int32_t>& tokens) const {
    const SequenceInput input{&kv, tokens, LogitsWanted::kLast};
    return engine_.pass->Step({&input, 1}, [](const LogitsRow&) { return Status::Ok(); });
  }
};

TEST_F(BadInput, IsAnsweredWithASentence) {
  KvCache kv = engine_.NewKv(10);
  EXPECT_THAT(Step(kv, {}), Fails(Code::kInvalidArgument, "sequence 0 of the step has no tokens"));
  EXPECT_THAT(Step(kv, {1, 512}),
              Fails(Code::kInvalidArgument,
                    "token 1 of sequence 0 is 512, which is not in the vocabulary of 512"));
  EXPECT_THAT(Step(kv, {-1}), Fails(Code::kInvalidArgument, "token 0 of sequence 0 is -1"));
  EXPECT_THAT(Step(kv, std::vector<int32_t>(9, 1)),
              Fails(Code::kInvalidArgument, "a step of more than 8 tokens"));
  ASSERT_OK(Step(kv, std::vector<int32_t>(8, 1)));
  EXPECT_THAT(Step(kv, {1, 2, 3}),
              Fails(Code::kInvalidArgument, "3 more tokens after 8 do not fit the context of 10"));
  EXPECT_OK(engine_.pass->Step({}, [](const LogitsRow&) { return Status::Ok(); }));
}

TEST_F(BadInput, ImpossibleOptions) {
  for (const size_t rows : {size_t{0}, size_t{1} << 40}) {
    EXPECT_THAT(
        ForwardPass::Create(*engine_.model, *engine_.cache, *engine_.pool, {.max_rows = rows}),
        Fails(Code::kInvalidArgument, "steps of up to"));
  }
}

TEST_F(BadInput, RecordsOfAnotherModel) {
  const ModelConfig& config = fixture_.config;
  const auto layout = [&](PayloadKind kind, uint32_t hidden, uint32_t width, bool biases) {
    return ExpertRecordLayout::Make(kind, biases ? RecordVersion::kV3 : RecordVersion::kV2, hidden,
                                    width, biases)
        .value();
  };
  EXPECT_OK(MoeBlock::CheckLayout(config, layout(PayloadKind::kInt4, 128, 64, false)));
  EXPECT_THAT(
      MoeBlock::CheckLayout(config, layout(PayloadKind::kInt4, 128, 96, false)),
      Fails(Code::kCorrupt, "hidden size 128 and expert width 96, config.json says 128 and 64"));
  EXPECT_THAT(MoeBlock::CheckLayout(config, layout(PayloadKind::kInt4, 128, 64, true)),
              Fails(Code::kCorrupt, "have biases, which Qwen3MoeForCausalLM has not"));
  ExpertRecordLayout strange = layout(PayloadKind::kInt4, 128, 64, false);
  strange.kind = static_cast<PayloadKind>(9);
  EXPECT_THAT(MoeBlock::CheckLayout(config, strange), Fails(Code::kUnsupported, "payload kind 9"));
  strange = layout(PayloadKind::kInt4, 128, 64, false);
  strange.down_scales.offset += 2;
  EXPECT_THAT(MoeBlock::CheckLayout(config, strange), Fails(Code::kUnsupported, "multiples of 4"));

  ExpertRecords other{layout(PayloadKind::kInt4, 64, 32, false), {}};
  auto cache = ExpertCache::Create(MemoryExpertSource::Create(other.layout, other.records).value(),
                                   {.num_slots = 2});
  EXPECT_THAT(ForwardPass::Create(*engine_.model, **cache, *engine_.pool, {}),
              Fails(Code::kCorrupt, "hidden size 64 and expert width 32"));
}

TEST_F(BadInput, OverflowIsNamed) {
  const auto step_with = [&](const std::string& name) {
    TensorSet set = TensorSet::DenseOf(fixture_);
    for (uint16_t& weight : set[name].as<uint16_t>()) weight = 0x7f7f;  // 3.4e38
    const TemporaryFolder folder;
    const TestEngine engine =
        TestEngine::Make(set.Write(folder), fixture_.config,
                         MemoryExpertSource::Create(experts_.layout, experts_.records).value(), {});
    KvCache kv = engine.NewKv(10);
    const std::vector<int32_t> tokens = {5, 6, 8};
    const SequenceInput input{&kv, tokens, LogitsWanted::kAll};
    return engine.pass->Step({&input, 1}, [](const LogitsRow&) { return Status::Ok(); });
  };
  EXPECT_THAT(step_with("model.layers.2.mlp.gate.weight"),
              Fails(Code::kCorrupt, "layer 2: the router's output is not finite"));
  EXPECT_THAT(step_with("model.layers.1.self_attn.o_proj.weight"),
              Fails(Code::kCorrupt, "layer 1: "));
  EXPECT_THAT(step_with("lm_head.weight"),
              Fails(Code::kCorrupt, "the logits at position 0 are not finite"));
}

TEST(ForwardPass, HiddenStateOverflowIsNamed) {
  // Dense layers first, so that the residual stream overflows without a router in between.
  const Fixture fixture = Fixture::Open(TestData("fixtures/qwen3_moe_tiny_dense"));
  const ExpertRecords experts = MakeRecords(fixture, PayloadKind::kBf16);
  TensorSet set = TensorSet::DenseOf(fixture);
  for (uint16_t& weight : set["model.layers.0.mlp.down_proj.weight"].as<uint16_t>())
    weight = 0x7f7f;
  const TemporaryFolder folder;
  const TestEngine engine =
      TestEngine::Make(set.Write(folder), fixture.config,
                       MemoryExpertSource::Create(experts.layout, experts.records).value(), {});
  KvCache kv = engine.NewKv(10);
  const std::vector<int32_t> tokens = {5};
  const SequenceInput input{&kv, tokens, LogitsWanted::kAll};
  EXPECT_THAT(engine.pass->Step({&input, 1}, [](const LogitsRow&) { return Status::Ok(); }),
              Fails(Code::kCorrupt, "layer 0: the hidden state at position 0 is not finite"));
}

// A record with bytes that no conversion writes, whichever part they are in: the run stops and says
// which record it was.
TEST(ForwardPass, AnExpertThatIsNotFiniteIsNamed) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/gpt_oss_tiny"));
  const auto prompt = fixture.Golden<int32_t>("p24.ids");
  const auto router_ids = fixture.Golden<int32_t>("p24.orig.router_ids");
  const size_t k = fixture.config.experts_per_token;
  const int32_t chosen = router_ids[1 * prompt.size() * k];  // Layer 1, the first token's first.
  const auto fails = [&](PayloadKind kind, RecordPart ExpertRecordLayout::*part, auto element) {
    ExpertRecords experts = MakeRecords(fixture, kind, kind == PayloadKind::kMxfp4);
    std::vector<std::byte>& record = experts.records.at({1, chosen});
    std::memcpy(record.data() + (experts.layout.*part).offset, &element, sizeof(element));
    for (const Compute compute : {Compute::kInt8, Compute::kF32}) {
      const TestEngine engine = TestEngine::Make(fixture, experts, {.compute = compute});
      KvCache kv = engine.NewKv(24);
      const SequenceInput input{&kv, std::span(prompt).first(1)};
      EXPECT_THAT(engine.pass->Step({&input, 1}, [](const LogitsRow&) { return Status::Ok(); }),
                  Fails(Code::kCorrupt,
                        fmt::format("layer 1 expert {}: what it yields is not finite", chosen)));
      EXPECT_EQ(kv.length(), 0u);
    }
  };
  // The first row of gate_up is a gate, whose infinity the clamp would have made a number.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  fails(PayloadKind::kInt4, &ExpertRecordLayout::gate_up_scales, -kInfinity);
  fails(PayloadKind::kInt4, &ExpertRecordLayout::gate_up_scales, std::nanf(""));
  fails(PayloadKind::kInt4, &ExpertRecordLayout::down_scales, kInfinity);
  fails(PayloadKind::kMxfp4, &ExpertRecordLayout::gate_up_scales, uint8_t{255});
  fails(PayloadKind::kMxfp4, &ExpertRecordLayout::down_scales, uint8_t{255});
  fails(PayloadKind::kMxfp4, &ExpertRecordLayout::gate_up_bias, kInfinity);
  fails(PayloadKind::kMxfp4, &ExpertRecordLayout::down_bias, -kInfinity);
}

}  // namespace
}  // namespace picchio
