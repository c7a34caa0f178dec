#include "apps/run/engine.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/convert.h"
#include "base/units.h"
#include "format/dtype.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// The tensors with these endings, as F32 of the same values.
void WidenTensors(EditableCheckpoint& checkpoint, const std::vector<std::string>& endings) {
  for (EditableCheckpoint::Tensor& tensor : checkpoint.tensors) {
    const bool chosen = std::ranges::any_of(
        endings, [&](const std::string& ending) { return tensor.info.name.ends_with(ending); });
    if (!chosen || tensor.info.dtype != Dtype::kBf16) continue;
    std::string wide(tensor.bytes.size() * 2, '\0');
    for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
      wide[2 * i + 2] = tensor.bytes[i];
      wide[2 * i + 3] = tensor.bytes[i + 1];
    }
    tensor.info.dtype = Dtype::kF32;
    tensor.bytes = std::move(wide);
  }
}

// A converted model of the edited checkpoint, opened.
class Opened {
 public:
  Opened(const EditableCheckpoint& checkpoint, const ConversionOptions& options) {
    checkpoint.Write(folder_ / "in");
    EXPECT_OK(Convert(folder_ / "in", folder_ / "out", options, 2, kGoOn));
    auto engine = Engine::Open(folder_ / "out", {.memory = {.prefill_span = 8}, .num_threads = 2});
    EXPECT_OK(engine);
    if (engine.has_value()) engine_ = std::move(*engine);
  }

  bool ok() const { return engine_ != nullptr; }
  Engine& engine() { return *engine_; }

  std::vector<float> Logits() {
    const std::vector<int32_t> ids = {1, 5, 9, 2, 30, 7};
    std::vector<float> logits;
    auto session = engine_->NewSession();
    EXPECT_OK(session);
    EXPECT_OK(session->Score(ids, 0,
                             [&](uint32_t, std::span<const float> row) {
                               logits.insert(logits.end(), row.begin(), row.end());
                             },
                             {}));
    return logits;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

// The ledger's figure is what is loaded, whatever the checkpoint's types and the conversion's.
TEST(Engine, TheLedgerCountsTheDenseWeightsAsTheyAreKept) {
  for (const char* fixture : {"qwen3_moe_tiny_dense", "gpt_oss_tiny"}) {
    for (const bool f32 : {false, true}) {
      for (const bool int8 : {false, true}) {
        for (const PayloadKind experts : {PayloadKind::kInt4, PayloadKind::kBf16}) {
          EditableCheckpoint checkpoint = EditableCheckpoint::Load(FixtureCheckpoint(fixture));
          if (f32) {
            WidenTensors(checkpoint,
                         {"self_attn.q_proj.weight", "self_attn.o_proj.weight", "norm.weight",
                          "embed_tokens.weight", "mlp.gate.weight", "mlp.router.weight"});
          }
          ConversionOptions options;
          options.experts = experts;
          options.int8_dense = int8;
          options.int8_head = int8;
          Opened opened(checkpoint, options);
          ASSERT_TRUE(opened.ok());
          EXPECT_EQ(opened.engine().memory().dense_bytes,
                    opened.engine().forward().model().weights.bytes)
              << fixture << (f32 ? " F32" : " BF16") << (int8 ? " int8 " : " ")
              << (experts == PayloadKind::kInt4 ? "INT4" : "BF16 experts");
        }
      }
    }
  }
}

// What a prompt needs is known before anything is loaded, and stays where it is afterwards.
TEST(Engine, ASetupAnswersForThePromptAndBecomesTheEngine) {
  ASSERT_OK_AND_ASSIGN(
      auto setup, EngineSetup::Open(TestData("../../models/demo"), {.memory = {.context = 64}}));
  const Tokenizer* tokenizer = setup->tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids,
                       tokenizer->Encode("Once upon a time", SpecialTokens::kAsText));
  ASSERT_OK_AND_ASSIGN(const MemoryPlan any, setup->Plan());
  EXPECT_EQ(any.prefill_span, 64u);
  ASSERT_OK_AND_ASSIGN(const MemoryPlan plan, setup->Plan(static_cast<uint32_t>(ids.size())));
  EXPECT_EQ(plan.context, 64u);
  EXPECT_EQ(plan.prefill_span, ids.size());
  EXPECT_LT(plan.working_bytes, any.working_bytes);
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Load(std::move(setup), plan));
  EXPECT_EQ(engine->tokenizer(), tokenizer);
  EXPECT_EQ(engine->forward().options().max_rows, ids.size());
  ASSERT_OK_AND_ASSIGN(Session session, engine->NewSession());
  EXPECT_EQ(session.context(), 64u);
  EXPECT_OK(session.Score(ids, 0, [](uint32_t, std::span<const float>) {}, {}));
}

// A limit that comes down in the middle of a prompt: what the cache gives back is what the engine
// reports, and the logits are the same.
TEST(Engine, MemoryIsGivenBackBetweenLayersOfARun) {
  const Path model = TestData("../../models/demo");
  const std::vector<int32_t> ids = {1, 5, 9, 2, 30, 7, 11, 4};
  const auto logits_of = [&](Engine& engine) {
    std::vector<float> logits;
    Session session = engine.NewSession().value();
    EXPECT_OK(session.Score(ids, 0,
                            [&](uint32_t, std::span<const float> row) {
                              logits.insert(logits.end(), row.begin(), row.end());
                            },
                            {}));
    return logits;
  };
  EngineOptions options{.memory = {.context = 64}, .num_threads = 1};
  ASSERT_OK_AND_ASSIGN(const auto reference, Engine::Open(model, options));

  int looks = 0;
  options.cache_chunk_bytes = 1_MiB;
  options.read_memory = [&looks]() -> Result<MemoryInfo> {
    MemoryInfo memory{.physical_bytes = 8_GiB, .available_bytes = 8_GiB};
    // The whole prompt is one step: the third look is before its third layer.
    const uint64_t limit = ++looks < 3 ? 400_MiB : 300_MiB;
    memory.groups = {
        {.limit_bytes = limit, .used_bytes = 287_MiB, .limit_file = "/group/memory.max"}};
    return memory;
  };
  options.watch_clock = [now = MemoryWatch::Clock::time_point()]() mutable {
    return now += std::chrono::seconds(2);
  };
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Open(model, options));
  ASSERT_GE(engine->config().num_hidden_layers, 3u);
  EXPECT_EQ(engine->cache_bytes_given_back(), 0u);
  const uint64_t before = engine->experts().arena().bytes();
  EXPECT_EQ(logits_of(*engine), logits_of(*reference));
  EXPECT_EQ(static_cast<uint32_t>(looks), engine->config().num_hidden_layers);
  EXPECT_GT(engine->cache_bytes_given_back(), 0u);
  EXPECT_EQ(engine->cache_bytes_given_back(), before - engine->experts().arena().bytes());
}

TEST(Engine, RecordsMayHaveBiasesOfF32) {
  EditableCheckpoint checkpoint = EditableCheckpoint::Load(FixtureCheckpoint("gpt_oss_tiny"));
  Opened narrow(checkpoint, {});
  WidenTensors(checkpoint, {"experts.gate_up_proj_bias", "experts.down_proj_bias"});
  Opened wide(checkpoint, {});
  ASSERT_TRUE(narrow.ok() && wide.ok());
  EXPECT_EQ(wide.Logits(), narrow.Logits());
}

}  // namespace
}  // namespace picchio
