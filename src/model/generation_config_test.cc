#include "model/generation_config.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using ::testing::ElementsAre;

TEST(GenerationConfig, ReadsAPublishedOne) {
  ASSERT_OK_AND_ASSIGN(
      const GenerationConfig config,
      GenerationConfig::Parse(
          ReadAll(TestData("configs/qwen3-coder-30b-a3b-instruct.generation_config.json")), "x",
          151936));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(151645, 151643));
  EXPECT_EQ(config.pad_token_id, 151643);
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 0.7);
  EXPECT_EQ(config.top_p, 0.8);
  EXPECT_EQ(config.top_k, 20u);
  EXPECT_EQ(config.min_p, std::nullopt);
  EXPECT_EQ(config.repetition_penalty, 1.05);

  ModelConfig model;
  model.eos_token_ids = {151645, 7};
  EXPECT_THAT(StopIds(model, config), ElementsAre(7, 151643, 151645));
}

TEST(GenerationConfig, PassesOverWhatItDoesNotKnow) {
  ASSERT_OK_AND_ASSIGN(
      const GenerationConfig config,
      GenerationConfig::Parse(R"({"cache_implementation": "hybrid", "eos_token_id": 3})", "x", 10));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3));
}

TEST(GenerationConfig, RefusesWrongValues) {
  const auto parse = [](std::string_view text) {
    return GenerationConfig::Parse(text, "generation_config.json", 10);
  };
  EXPECT_THAT(parse(R"({"eos_token_id": 10})"),
              Fails(Code::kCorrupt, "generation_config.json: eos_token_id is 10"));
  EXPECT_THAT(parse(R"({"eos_token_id": [1, -1]})"), Fails(Code::kCorrupt, "eos_token_id is -1"));
  EXPECT_THAT(parse(R"({"temperature": -0.5})"), Fails(Code::kCorrupt, "temperature is -0.5"));
  EXPECT_THAT(parse(R"({"top_p": 1.5})"), Fails(Code::kCorrupt, "top_p"));
  EXPECT_THAT(parse(R"({"top_k": -1})"), Fails(Code::kCorrupt, "top_k"));
  EXPECT_THAT(parse(R"({"repetition_penalty": 0})"), Fails(Code::kCorrupt, "repetition_penalty"));
  EXPECT_THAT(parse(R"({"do_sample": "yes"})"), Fails(Code::kCorrupt, "do_sample"));
  EXPECT_THAT(parse("3"), Fails(Code::kCorrupt, "expected an object"));
  EXPECT_THAT(parse(""), Fails(Code::kCorrupt, "not valid JSON"));
}

TEST(GenerationConfig, MayBeMissing) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const GenerationConfig none, GenerationConfig::Load(folder.path(), 10));
  EXPECT_TRUE(none.eos_token_ids.empty());
  WriteAll(folder / "generation_config.json", R"({"eos_token_id": 4, "do_sample": false})");
  ASSERT_OK_AND_ASSIGN(const GenerationConfig config, GenerationConfig::Load(folder.path(), 10));
  EXPECT_THAT(config.eos_token_ids, ElementsAre(4));
  EXPECT_EQ(config.do_sample, false);
}

}  // namespace
}  // namespace picchio
