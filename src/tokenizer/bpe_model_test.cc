#include "tokenizer/bpe_model.h"

#include <functional>

#include "support/test_support.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

Result<BpeModel> Read(const Json& model, const std::unordered_set<std::string>& special = {}) {
  PICCHIO_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(model, "f: model"));
  return ReadBpeModel(std::move(fields), special);
}

Json TinyModel() { return TinyTokenizer()["model"]; }

std::vector<int32_t> Encoded(const BpeModel& model, std::string_view piece) {
  Merges::Scratch scratch;
  std::vector<int32_t> out;
  model.merges.Encode(piece, scratch, out);
  return out;
}

TEST(BpeModel, VocabularyAndMerges) {
  ASSERT_OK_AND_ASSIGN(const BpeModel model, Read(TinyModel()));
  EXPECT_FALSE(model.ignore_merges);
  EXPECT_EQ(model.vocabulary.size(), 265);
  EXPECT_EQ(model.vocabulary.Bytes(264), " world");
  EXPECT_EQ(model.vocabulary.Find(" world"), 264);
  EXPECT_EQ(Encoded(model, "hello"), std::vector<int32_t>{259});
  EXPECT_EQ(Encoded(model, " worlds"), (std::vector<int32_t>{264, 's'}));
}

TEST(BpeModel, MergesAsPairs) {
  Json json = TinyModel();
  for (Json& merge : json["merges"]) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    merge = {text.substr(0, space), text.substr(space + 1)};
  }
  ASSERT_OK_AND_ASSIGN(const BpeModel model, Read(json));
  EXPECT_EQ(Encoded(model, "hello"), std::vector<int32_t>{259});
}

TEST(BpeModel, WhatChangesNothingIsAccepted) {
  Json json = TinyModel();
  json["unk_token"] = "<unk>";
  json["fuse_unk"] = true;
  json["dropout"] = 0.0;
  json["ignore_merges"] = true;
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    json.erase(name);
  }
  ASSERT_OK_AND_ASSIGN(const BpeModel model, Read(json));
  EXPECT_TRUE(model.ignore_merges);
}

// A character that is no stand-in of a byte: the token has an id and a text, but nothing becomes
// it.
TEST(BpeModel, TokensOutsideTheAlphabet) {
  Json json = TinyModel();
  json["vocab"]["\u2581the"] = 265;
  json["vocab"]["<s>"] = 266;
  ASSERT_OK_AND_ASSIGN(const BpeModel model, Read(json, {"<s>"}));
  EXPECT_EQ(model.vocabulary.Bytes(265), "\u2581the");
  EXPECT_EQ(model.vocabulary.Find("\u2581the"), Vocabulary::kNone);
  EXPECT_EQ(model.vocabulary.Bytes(266), "<s>");
  EXPECT_EQ(model.vocabulary.Find("<s>"), Vocabulary::kNone);
}

TEST(BpeModel, WhatIsRefused) {
  struct Case {
    Code code;
    const char* part;
    std::function<void(Json&)> edit;
  };
  const Case cases[] = {
      {Code::kCorrupt, "no \"type\"", [](Json& m) { m.erase("type"); }},
      {Code::kUnsupported, "model type \"Unigram\"", [](Json& m) { m["type"] = "Unigram"; }},
      {Code::kUnsupported, "dropout", [](Json& m) { m["dropout"] = 0.1; }},
      {Code::kUnsupported, "dropout", [](Json& m) { m["dropout"] = "none"; }},
      {Code::kUnsupported, "continuing_subword_prefix",
       [](Json& m) { m["continuing_subword_prefix"] = "##"; }},
      {Code::kUnsupported, "end_of_word_suffix", [](Json& m) { m["end_of_word_suffix"] = "</w>"; }},
      {Code::kUnsupported, "byte_fallback", [](Json& m) { m["byte_fallback"] = true; }},
      {Code::kCorrupt, "\"ignore_merges\" is a number", [](Json& m) { m["ignore_merges"] = 1; }},
      {Code::kUnsupported, "the field \"speed\" is not known", [](Json& m) { m["speed"] = 1; }},
      {Code::kCorrupt, "no \"vocab\"", [](Json& m) { m.erase("vocab"); }},
      {Code::kCorrupt, "\"vocab\" is an array", [](Json& m) { m["vocab"] = Json::array(); }},
      {Code::kCorrupt, "no \"merges\"", [](Json& m) { m.erase("merges"); }},
      {Code::kCorrupt, "\"merges\" is an object", [](Json& m) { m["merges"] = Json::object(); }},
      {Code::kCorrupt, "an empty token", [](Json& m) { m["vocab"][""] = 300; }},
      {Code::kCorrupt, "the id of \"new\" is a string", [](Json& m) { m["vocab"]["new"] = "1"; }},
      {Code::kCorrupt, "the id of \"new\" is a number where an integer",
       [](Json& m) { m["vocab"]["new"] = 300.5; }},
      {Code::kCorrupt, "two tokens have the id 3", [](Json& m) { m["vocab"]["new"] = 3; }},
      {Code::kCorrupt, "\"new\": token id -1", [](Json& m) { m["vocab"]["new"] = -1; }},
      {Code::kCorrupt, "\"new\": token id 4294967296",
       [](Json& m) { m["vocab"]["new"] = int64_t{1} << 32; }},
      {Code::kCorrupt, "\"new\": token id 2^63 or more",
       [](Json& m) { m["vocab"]["new"] = UINT64_MAX; }},
      {Code::kUnsupported, "no token for the byte 0x0a",
       [](Json& m) { m["vocab"].erase("\u010A"); }},
      {Code::kCorrupt, "model.merges[9]: neither two tokens",
       [](Json& m) { m["merges"].push_back("ab"); }},
      {Code::kCorrupt, "merges[9]: neither", [](Json& m) { m["merges"].push_back("a b c"); }},
      {Code::kCorrupt, "merges[9]: neither", [](Json& m) { m["merges"].push_back(17); }},
      {Code::kCorrupt, "merges[9]: neither", [](Json& m) { m["merges"].push_back({"a"}); }},
      {Code::kCorrupt, "merges[9]: neither",
       [](Json& m) {
         m["merges"].push_back({"a", 1});
       }},
      {Code::kCorrupt, "\"\" is not in the vocabulary",
       [](Json& m) { m["merges"].push_back(" b"); }},
      {Code::kCorrupt, "\"hello!\" is not in the vocabulary",
       [](Json& m) { m["merges"].push_back("hello! b"); }},
      {Code::kCorrupt, "\"\u2581\" is not in the vocabulary",
       [](Json& m) { m["merges"].push_back("a \u2581"); }},
      {Code::kCorrupt, "\"a\" and \"b\" make a token that is not in the vocabulary",
       [](Json& m) { m["merges"].push_back("a b"); }},
      {Code::kCorrupt, "merges[9]: the same pair is merged at rank 0",
       [](Json& m) { m["merges"].push_back("h e"); }},
  };
  for (const Case& c : cases) {
    Json json = TinyModel();
    c.edit(json);
    EXPECT_THAT(Read(json), Fails(c.code, c.part));
  }
  EXPECT_THAT(Read(TinyModel(), {"hello"}), Fails(Code::kCorrupt, "merges[3]: \"hell\" and \"o\""));
}

}  // namespace
}  // namespace picchio
