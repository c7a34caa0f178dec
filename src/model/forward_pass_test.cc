#include "model/forward_pass.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <ostream>
#include <random>

#include "experts/faulty_expert_source.h"
#include "model/fixture_test_support.h"
#include "model/tensor_set_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

std::vector<int32_t> RandomTokens(size_t count, size_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab);
  return tokens;
}

struct ModelCase {
  const char* fixture;
  PayloadKind kind;
  Compute compute;

  std::string Name() const {
    const std::map<PayloadKind, std::string> kinds = {
        {PayloadKind::kInt4, "int4"}, {PayloadKind::kMxfp4, "mxfp4"}, {PayloadKind::kBf16, "bf16"}};
    return std::string(fixture) + "_" + kinds.at(kind) +
           (compute == Compute::kInt8 ? "_q8" : "_f32");
  }
};

void PrintTo(const ModelCase& one, std::ostream* out) { *out << one.Name(); }

// The claim under test: the same bits, whatever the circumstances.
class SameBits : public testing::TestWithParam<ModelCase> {
 protected:
  static constexpr size_t kTokens = 200;  // More than a sliding layer takes at once, or keeps.

  const Fixture fixture_ = Fixture::Open(TestData("fixtures/" + std::string(GetParam().fixture)));
  const ExpertRecords experts_ = MakeRecords(fixture_, GetParam().kind);
  const std::vector<int32_t> tokens_ = RandomTokens(kTokens, fixture_.config.vocab_size, 1);
  const size_t vocab_ = fixture_.config.vocab_size;

  TestEngine::Options Options() const {
    TestEngine::Options options;
    options.compute = GetParam().compute;
    return options;
  }
  TestEngine Engine(const TestEngine::Options& options) const {
    return TestEngine::Make(fixture_, experts_, options);
  }
  // The logits of the first `count` tokens, taken in spans of at most `span`.
  std::vector<float> Run(const TestEngine& engine, size_t count, size_t span) const {
    KvCache kv = engine.NewKv(kTokens);
    std::vector<float> logits;
    for (size_t done = 0; done < count; done += span) {
      const auto part = std::span(tokens_).subspan(done, std::min(span, count - done));
      const std::vector<float> of_part = engine.Step(kv, part);
      logits.insert(logits.end(), of_part.begin(), of_part.end());
    }
    return logits;
  }
  // One thread, one step, every expert cached.
  const std::vector<float>& Reference() {
    if (reference_.empty()) {
      TestEngine::Options options = Options();
      options.threads = 1;
      reference_ = Run(Engine(options), kTokens, kTokens);
    }
    return reference_;
  }
  // Of tokens [first, last).
  std::vector<float> Reference(size_t first, size_t last) {
    const auto begin = Reference().begin();
    return {begin + static_cast<ptrdiff_t>(first * vocab_),
            begin + static_cast<ptrdiff_t>(last * vocab_)};
  }

 private:
  std::vector<float> reference_;
};

INSTANTIATE_TEST_SUITE_P(
    All, SameBits,
    testing::Values(ModelCase{"qwen3_moe_tiny_dense", PayloadKind::kInt4, Compute::kInt8},
                    ModelCase{"qwen3_moe_tiny_dense", PayloadKind::kBf16, Compute::kF32},
                    ModelCase{"gpt_oss_tiny", PayloadKind::kInt4, Compute::kInt8},
                    ModelCase{"gpt_oss_tiny", PayloadKind::kMxfp4, Compute::kInt8},
                    ModelCase{"gpt_oss_tiny", PayloadKind::kMxfp4, Compute::kF32}),
    [](const auto& param_info) { return param_info.param.Name(); });

TEST_P(SameBits, AnyNumberOfThreads) {
  for (const int threads : {2, 3}) {
    TestEngine::Options options = Options();
    options.threads = threads;
    EXPECT_EQ(Run(Engine(options), kTokens, kTokens), Reference()) << threads << " threads";
  }
  // Token by token, with more threads than key/value heads: query heads are taken apart.
  ASSERT_LT(fixture_.config.num_key_value_heads, 4u);
  TestEngine::Options many = Options();
  many.threads = 4;
  EXPECT_EQ(Run(Engine(many), kTokens, 1), Reference());
}

TEST_P(SameBits, AnySpan) {
  for (const size_t span : {size_t{1}, size_t{7}, size_t{128}, size_t{199}}) {
    TestEngine::Options options = Options();
    options.max_rows = span;
    EXPECT_EQ(Run(Engine(options), kTokens, span), Reference()) << "spans of " << span;
  }
}

TEST_P(SameBits, AnyNumberOfSlots) {
  for (const size_t slots : {size_t{2}, size_t{3}, size_t{4}}) {
    TestEngine::Options options = Options();
    options.num_slots = slots;
    EXPECT_EQ(Run(Engine(options), 60, 25), Reference(0, 60)) << slots << " slots";
  }
}

TEST_P(SameBits, AnyInstructionSet) {
  for (const Kernels* kernels : AvailableKernels()) {
    TestEngine::Options options = Options();
    options.kernels = kernels;
    EXPECT_EQ(Run(Engine(options), 40, 30), Reference(0, 40))
        << InstructionSetName(kernels->instruction_set);
  }
}

TEST_P(SameBits, AnyOrderOfCompletion) {
  for (const uint64_t seed : {1, 2}) {
    auto source = std::make_unique<FaultyExpertSource>(
        MemoryExpertSource::Create(experts_.layout, experts_.records).value(),
        FaultPlan{.seed = seed, .refuse_rate = 0.3, .shuffle = true});
    TestEngine::Options options = Options();
    options.num_slots = 5;
    const TestEngine engine =
        TestEngine::Make(fixture_.tensors, fixture_.config, std::move(source), options);
    EXPECT_EQ(Run(engine, 60, 25), Reference(0, 60));
  }
}

// Computed with as it lands, or when all is there; with what the next layer may ask for read ahead,
// or not.
TEST_P(SameBits, AnyOverlapAndReadingAhead) {
  const size_t chosen = fixture_.config.experts_per_token;
  for (const bool overlap : {true, false}) {
    for (const size_t span : {size_t{1}, size_t{5}, size_t{25}}) {
      auto source = std::make_unique<FaultyExpertSource>(
          MemoryExpertSource::Create(experts_.layout, experts_.records).value(),
          FaultPlan{.seed = span, .refuse_rate = 0.3, .shuffle = true});
      TestEngine::Options options = Options();
      options.num_slots = 3 * chosen;
      options.prefetch_slots = chosen;
      options.overlap = overlap;
      const TestEngine engine =
          TestEngine::Make(fixture_.tensors, fixture_.config, std::move(source), options);
      ASSERT_EQ(engine.cache->num_prefetch_slots(), chosen);
      EXPECT_EQ(Run(engine, 60, span), Reference(0, 60)) << "spans of " << span;
      // Where every other layer is dense, no layer knows the next one's router.
      const bool moe_follows_moe = fixture_.config.layers[0].moe;
      EXPECT_EQ(engine.cache->stats().prefetched > 0, moe_follows_moe);
    }
  }
}

// Three sequences, taken on by different numbers of tokens in each step, beside the one that
// counts.
TEST_P(SameBits, CompanyOfOthers) {
  const TestEngine engine = Engine(Options());
  KvCache kv = engine.NewKv(kTokens);
  std::vector<KvCache> others;
  for (int i = 0; i < 3; ++i) others.push_back(engine.NewKv(400));
  std::vector<std::vector<int32_t>> other_tokens;
  for (uint32_t i = 0; i < 3; ++i) other_tokens.push_back(RandomTokens(400, vocab_, 10 + i));
  std::mt19937 random(5);
  std::vector<float> logits;
  size_t steps = 0;
  while (kv.length() < kTokens) {
    std::vector<SequenceInput> inputs;
    const size_t place = random() % 4;
    for (size_t i = 0; i < 4; ++i) {
      if (i == place) {
        const size_t count = std::min<size_t>(1 + random() % 150, kTokens - kv.length());
        inputs.push_back({&kv, std::span(tokens_).subspan(kv.length(), count), LogitsWanted::kAll});
      }
      if (i == 3) break;
      const size_t count = std::min<size_t>(random() % 120, 400 - others[i].length());
      if (count == 0) continue;
      inputs.push_back({&others[i], std::span(other_tokens[i]).subspan(others[i].length(), count),
                        LogitsWanted::kLast});
    }
    ++steps;
    std::map<size_t, size_t> rows;
    const uint32_t begin = kv.length();
    ASSERT_OK(engine.pass->Step(inputs, [&](const LogitsRow& row) {
      const SequenceInput& input = inputs[row.sequence_idx];
      const size_t nth = rows[row.sequence_idx]++;
      if (input.kv == &kv) {
        EXPECT_EQ(row.position, begin + nth);
        logits.insert(logits.end(), row.logits.begin(), row.logits.end());
      } else {
        EXPECT_EQ(nth, 0u);
        EXPECT_EQ(row.position, input.kv->length() + input.tokens.size() - 1);
      }
      return Status::Ok();
    }));
  }
  EXPECT_GT(steps, 2u);
  EXPECT_EQ(logits, Reference());
}

// Of three sequences all but one leave, before each layer and before the head.
TEST_P(SameBits, WithoutThoseWhoLeave) {
  const TestEngine engine = Engine(Options());
  const std::vector<int32_t> other = RandomTokens(150, vocab_, 9);
  for (size_t stays = 0; stays < 3; ++stays) {
    for (uint32_t at = 0; at <= fixture_.config.num_hidden_layers; ++at) {
      std::vector<KvCache> kvs;
      for (size_t i = 0; i < 3; ++i) kvs.push_back(engine.NewKv(kTokens));
      std::atomic<bool> leave = false;
      std::vector<SequenceInput> inputs;
      for (size_t i = 0; i < 3; ++i) {
        inputs.push_back({.kv = &kvs[i], .tokens = std::span(other).first(20 * (i + 1))});
        if (i != stays) inputs[i].leave = &leave;
      }
      inputs[stays].tokens = std::span(tokens_).first(50);
      inputs[stays].logits = LogitsWanted::kAll;
      std::vector<float> logits;
      ASSERT_OK(engine.pass->Step(
          inputs,
          [&](const LogitsRow& row) {
            if (row.sequence_idx == stays) {
              logits.insert(logits.end(), row.logits.begin(), row.logits.end());
            }
            return Status::Ok();
          },
          [&](uint32_t layer) {
            leave = layer >= at;
            return Status::Ok();
          }));
      EXPECT_EQ(logits, Reference(0, 50)) << "stays " << stays << ", others leave at " << at;
      // Before the head nobody is asked, so that it comes too late for that.
      const bool left = at < fixture_.config.num_hidden_layers;
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(kvs[i].length(), i == stays || !left ? inputs[i].tokens.size() : 0u);
      }
    }
  }
  // All of them: the step ends, and nobody has moved on.
  KvCache kv = engine.NewKv(kTokens);
  const std::atomic<bool> leave = true;
  const SequenceInput input{.kv = &kv, .tokens = tokens_, .leave = &leave};
  ASSERT_OK(engine.pass->Step({&input, 1}, [](const LogitsRow&) {
    return Error(Code::kIoError, "there is nobody to have logits");
  }));
  EXPECT_EQ(kv.length(), 0u);
}

TEST_P(SameBits, AfterRewinds) {
  // The ring keeps 143 rows; after 100 tokens, a checkpoint, and 100 others its window is gone.
  const TestEngine engine = Engine(Options());
  KvCache kv = engine.NewKv(kTokens);
  engine.Step(kv, std::span(tokens_).first(100), LogitsWanted::kNone);
  kv.KeepCheckpoint(100);
  engine.Step(kv, RandomTokens(100, vocab_, 3), LogitsWanted::kNone);
  EXPECT_EQ(kv.Rewind(100), 100u);
  EXPECT_EQ(engine.Step(kv, std::span(tokens_).subspan(100, 50), LogitsWanted::kLast),
            Reference(149, 150));
  engine.Step(kv, RandomTokens(50, vocab_, 4), LogitsWanted::kNone);
  EXPECT_EQ(kv.Rewind(140), 140u);
  EXPECT_EQ(engine.Step(kv, std::span(tokens_).subspan(140, 60), LogitsWanted::kLast),
            Reference(199, 200));
}

TEST_P(SameBits, StepsThatEndEarlyLeaveNoTrace) {
  auto source = std::make_unique<FaultyExpertSource>(
      MemoryExpertSource::Create(experts_.layout, experts_.records).value(),
      FaultPlan{.fail_reads = {{4, Code::kIoError}}});
  const TestEngine engine =
      TestEngine::Make(fixture_.tensors, fixture_.config, std::move(source), Options());
  KvCache kv = engine.NewKv(kTokens);
  const auto step = [&](size_t count, auto receive, auto before_layer) {
    const SequenceInput input{&kv, std::span(tokens_).subspan(kv.length(), count),
                              LogitsWanted::kAll};
    return engine.pass->Step({&input, 1}, receive, before_layer);
  };
  const auto drop = [](const LogitsRow&) { return Status::Ok(); };
  const auto go_on = [](uint32_t) { return Status::Ok(); };
  EXPECT_THAT(step(100, drop, go_on), Fails(Code::kIoError, "layer"));
  EXPECT_EQ(kv.length(), 0u);
  ASSERT_OK(step(100, drop, go_on));
  EXPECT_EQ(kv.length(), 100u);

  std::vector<uint32_t> layers;
  EXPECT_THAT(step(100, drop,
                   [&](uint32_t layer) {
                     layers.push_back(layer);
                     return layer < 2 ? Status::Ok() : Status(Code::kCancelled, "stopped");
                   }),
              Fails(Code::kCancelled, "stopped"));
  EXPECT_THAT(layers, testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(kv.length(), 100u);
  EXPECT_THAT(step(
                  10, [](const LogitsRow&) { return Status(Code::kIoError, "disk full"); }, go_on),
              Fails(Code::kIoError, "disk full"));
  EXPECT_EQ(kv.length(), 100u);

  std::vector<float> logits;
  ASSERT_OK(step(
      100,
      [&](const LogitsRow& row) {
        logits.insert(logits.end(), row.logits.begin(), row.logits.end());
        return Status::Ok();
      },
      go_on));
  EXPECT_EQ(logits, Reference(100, 200));
}

TEST(ForwardPass, BiasesFromRecordsOrFromTheDenseWeights) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/gpt_oss_tiny"));
  const std::vector<int32_t> tokens = RandomTokens(20, 512, 1);
  std::vector<std::vector<float>> logits;
  for (const bool in_records : {false, true}) {
    const TestEngine engine = TestEngine::Make(
        fixture, MakeRecords(fixture, PayloadKind::kInt4, in_records), {.compute = Compute::kInt8});
    KvCache kv = engine.NewKv(20);
    logits.push_back(engine.Step(kv, tokens));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// INT8 weights under F32 compute are as good as the F32 values that they stand for; with 8-bit
// activations nearly so.
TEST(ForwardPass, Int8DenseWeights) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/qwen3_moe_tiny_dense"));
  const ExpertRecords experts = MakeRecords(fixture, PayloadKind::kBf16);
  TensorSet int8 = TensorSet::DenseOf(fixture);
  TensorSet decoded = int8;
  for (const ExpectedTensor& tensor : ExpectedDenseTensors(fixture.config)) {
    if (!tensor.quantizable) continue;
    decoded[tensor.name] = F32Tensor(tensor.shape, MakeInt8(int8, tensor.name));
  }
  const std::vector<int32_t> tokens = RandomTokens(40, 512, 1);
  const auto run = [&](const TensorSet& set, Compute compute, int threads) {
    const TemporaryFolder folder;
    const TestEngine engine =
        TestEngine::Make(set.Write(folder), fixture.config,
                         MemoryExpertSource::Create(experts.layout, experts.records).value(),
                         {.threads = threads, .compute = compute});
    KvCache kv = engine.NewKv(40);
    return engine.Step(kv, tokens);
  };
  const std::vector<float> expected = run(decoded, Compute::kF32, 1);
  const std::vector<float> exact = run(int8, Compute::kF32, 1);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(exact[i], expected[i], 1e-3);

  const std::vector<float> quantized = run(int8, Compute::kInt8, 1);
  EXPECT_EQ(run(int8, Compute::kInt8, 3), quantized);
  EXPECT_NE(quantized, exact);
  // The first token's experts are the same, and so its error is that of the activations alone.
  for (size_t i = 0; i < 512; ++i) ASSERT_NEAR(quantized[i], expected[i], 0.5);
}

TEST(ForwardPass, TellsWhereTimeWent) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/qwen3_moe_tiny"));
  const TestEngine engine = TestEngine::Make(fixture, MakeRecords(fixture, PayloadKind::kInt4), {});
  KvCache kv = engine.NewKv(100);
  engine.Step(kv, RandomTokens(50, 512, 1));
  engine.Step(kv, RandomTokens(1, 512, 2));
  const StepStats stats = engine.pass->stats();
  EXPECT_EQ(stats.steps, 2u);
  EXPECT_EQ(stats.rows, 51u);
  EXPECT_GT(stats.attention.count(), 0);
  EXPECT_GT(stats.mlp.count(), 0);
  EXPECT_EQ(stats.storage_wait.count(), 0) << "nothing is waited for that is in memory";
  EXPECT_GT(stats.head.count(), 0);
  EXPECT_GE(stats.total, stats.attention + stats.mlp + stats.storage_wait + stats.head);
}

TEST(ForwardPass, WaitingForStorageIsToldApart) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/qwen3_moe_tiny"));
  const ExpertRecords experts = MakeRecords(fixture, PayloadKind::kInt4);
  const TestEngine engine =
      TestEngine::Make(fixture.tensors, fixture.config,
                       std::make_unique<FaultyExpertSource>(
                           MemoryExpertSource::Create(experts.layout, experts.records).value(),
                           FaultPlan{.delay_rate = 1, .delay = std::chrono::milliseconds(2)}),
                       {});
  KvCache kv = engine.NewKv(100);
  engine.Step(kv, RandomTokens(50, 512, 1));
  const StepStats stats = engine.pass->stats();
  EXPECT_GT(stats.storage_wait.count(), 0);
  EXPECT_GE(stats.total, stats.attention + stats.mlp + stats.storage_wait + stats.head);
}

TEST(ForwardPass, WorkingBytesGrowWithTheSpan) {
  const Fixture fixture = Fixture::Open(TestData("fixtures/gpt_oss_tiny"));
  const ExpertRecordLayout layout = MakeRecords(fixture, PayloadKind::kMxfp4).layout;
  const auto bytes = [&](size_t rows, Compute compute) {
    return ForwardPass::WorkingBytes(fixture.config, layout, {.max_rows = rows, .compute = compute},
                                     2);
  };
  EXPECT_LT(bytes(1, Compute::kInt8), bytes(100, Compute::kInt8));
  EXPECT_GT(bytes(1000, Compute::kF32), 9 * bytes(100, Compute::kF32) / 2);
}

}  // namespace
}  // namespace picchio
