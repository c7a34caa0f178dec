#include "tokenizer/tokenizer_file.h"

#include <functional>

#include "support/test_support.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

struct Case {
  Code code;
  const char* part;
  std::function<void(Json&)> edit;
};

void ExpectRefused(const Case& c) {
  Json json = TinyTokenizer();
  c.edit(json);
  const auto result = Tokenizer::Parse(json.dump(), "dir/tokenizer.json");
  EXPECT_THAT(result, Fails(c.code, c.part));
  EXPECT_THAT(result, Fails(c.code, "dir/tokenizer.json: "));
}

Json& Split(Json& json) { return json["pre_tokenizer"]["pretokenizers"][0]; }
Json& ByteLevel(Json& json) { return json["pre_tokenizer"]["pretokenizers"][1]; }

TEST(TokenizerFile, TextsThatAreNoTokenizer) {
  const auto parsed = [](std::string_view text) { return Tokenizer::Parse(text, "t"); };
  EXPECT_THAT(parsed(""), Fails(Code::kCorrupt, "t: not valid JSON"));
  EXPECT_THAT(parsed("{\"version\": \"1.0\""), Fails(Code::kCorrupt, "t: not valid JSON at byte"));
  EXPECT_THAT(parsed("[]"), Fails(Code::kCorrupt, "t: an array where an object is expected"));
  EXPECT_THAT(parsed("{}"), Fails(Code::kCorrupt, "t: no \"version\""));
  EXPECT_THAT(parsed("{\"version\": \"1.0\", \"version\": \"1.0\"}"),
              Fails(Code::kCorrupt, "stands twice"));
  EXPECT_THAT(parsed(std::string(100'000, '[')), Fails(Code::kCorrupt, "nested deeper"));
  const std::string whole = TinyTokenizer().dump();
  for (size_t cut = 0; cut < whole.size(); cut += 97) {
    EXPECT_THAT(parsed(whole.substr(0, cut)), Fails(Code::kCorrupt, "t: not valid JSON"));
  }
}

TEST(TokenizerFile, WholeFile) {
  for (const Case& c : {
           Case{Code::kUnsupported, "the version \"2.0\" is not supported",
                [](Json& j) { j["version"] = "2.0"; }},
           Case{Code::kUnsupported, "truncation is", [](Json& j) { j["truncation"]["n"] = 1; }},
           Case{Code::kUnsupported, "padding is", [](Json& j) { j["padding"] = true; }},
           Case{Code::kUnsupported, "the field \"extra\"", [](Json& j) { j["extra"] = 1; }},
           Case{Code::kCorrupt, "no \"pre_tokenizer\"",
                [](Json& j) { j["pre_tokenizer"] = nullptr; }},
           Case{Code::kCorrupt, "no \"decoder\"", [](Json& j) { j.erase("decoder"); }},
           Case{Code::kCorrupt, "no \"model\"", [](Json& j) { j.erase("model"); }},
           Case{Code::kCorrupt, "model: a string where an object",
                [](Json& j) { j["model"] = ""; }},
           Case{Code::kUnsupported, "the decoder \"Fuse\" is",
                [](Json& j) {
                  j["decoder"] = {{"type", "Fuse"}};
                }},
           Case{Code::kUnsupported, "decoder: the field \"x\"",
                [](Json& j) { j["decoder"]["x"] = 1; }},
           Case{Code::kCorrupt, "decoder: a string", [](Json& j) { j["decoder"] = "ByteLevel"; }},
           Case{Code::kUnsupported, "the normalizer \"NFKC\" is",
                [](Json& j) { j["normalizer"]["type"] = "NFKC"; }},
           Case{Code::kUnsupported, "normalizer.normalizers[1]: the normalizer \"Lowercase\" is",
                [](Json& j) {
                  j["normalizer"] = {{"type", "Sequence"},
                                     {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
                }},
           Case{Code::kCorrupt, "normalizer: no \"normalizers\"",
                [](Json& j) {
                  j["normalizer"] = {{"type", "Sequence"}};
                }},
           Case{Code::kCorrupt, "normalizer: no \"type\"",
                [](Json& j) { j["normalizer"] = Json::object(); }},
           Case{Code::kCorrupt, "normalizer: a string", [](Json& j) { j["normalizer"] = "NFC"; }},
           Case{Code::kUnsupported, "the post-processor \"BertProcessing\" is",
                [](Json& j) {
                  j["post_processor"] = {{"type", "BertProcessing"}};
                }},
       }) {
    ExpectRefused(c);
  }
}

TEST(TokenizerFile, PreTokenizers) {
  for (const Case& c : {
           Case{Code::kUnsupported, "the pre-tokenizer \"Metaspace\" is",
                [](Json& j) {
                  j["pre_tokenizer"] = {{"type", "Metaspace"}};
                }},
           Case{Code::kUnsupported, "pretokenizers[0]: the pre-tokenizer \"Digits\" is",
                [](Json& j) {
                  Split(j) = {{"type", "Digits"}};
                }},
           Case{Code::kUnsupported, "no ByteLevel stage",
                [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }},
           Case{Code::kUnsupported, "[2]: \"Split\" after ByteLevel is",
                [](Json& j) {
                  const Json split = Split(j);
                  j["pre_tokenizer"]["pretokenizers"].push_back(split);
                }},
           Case{Code::kUnsupported, "the behavior \"Removed\" is",
                [](Json& j) { Split(j)["behavior"] = "Removed"; }},
           Case{Code::kUnsupported, "the behavior \"Isolated\", inverted, is",
                [](Json& j) { Split(j)["invert"] = true; }},
           Case{Code::kCorrupt, "no \"behavior\"", [](Json& j) { Split(j).erase("behavior"); }},
           Case{Code::kCorrupt, "no \"pattern\"", [](Json& j) { Split(j).erase("pattern"); }},
           Case{Code::kCorrupt, "pattern: no \"Regex\"",
                [](Json& j) {
                  Split(j)["pattern"] = {{"String", " "}};
                }},
           Case{Code::kUnsupported, "pattern: the field \"String\"",
                [](Json& j) { Split(j)["pattern"]["String"] = " "; }},
           Case{Code::kUnsupported, "pattern: '^' at byte 0",
                [](Json& j) { Split(j)["pattern"]["Regex"] = "^a"; }},
           Case{Code::kCorrupt, "pattern: the regular expression does not compile",
                [](Json& j) { Split(j)["pattern"]["Regex"] = "(a"; }},
           Case{Code::kUnsupported, "[0]: the field \"max\"", [](Json& j) { Split(j)["max"] = 1; }},
           Case{Code::kCorrupt, "\"use_regex\" is a number",
                [](Json& j) { ByteLevel(j)["use_regex"] = 1; }},
           Case{Code::kCorrupt, "\"add_prefix_space\" is a string",
                [](Json& j) { ByteLevel(j)["add_prefix_space"] = "no"; }},
       }) {
    ExpectRefused(c);
  }
}

TEST(TokenizerFile, AddedTokens) {
  for (const Case& c : {
           Case{Code::kCorrupt, "added_tokens: an object where an array",
                [](Json& j) { j["added_tokens"] = Json::object(); }},
           Case{Code::kCorrupt, "added_tokens[1]: a number where an object",
                [](Json& j) { j["added_tokens"][1] = 5; }},
           Case{Code::kCorrupt, "added_tokens[0]: no \"id\"",
                [](Json& j) { j["added_tokens"][0].erase("id"); }},
           Case{Code::kCorrupt, "\"id\" is a string where an integer",
                [](Json& j) { j["added_tokens"][0]["id"] = "265"; }},
           Case{Code::kCorrupt, "no \"content\"",
                [](Json& j) { j["added_tokens"][0].erase("content"); }},
           Case{Code::kCorrupt, "an empty token",
                [](Json& j) { j["added_tokens"][0]["content"] = ""; }},
           Case{Code::kUnsupported, "lstrip of \"<|end|>\" is",
                [](Json& j) { j["added_tokens"][0]["lstrip"] = true; }},
           Case{Code::kUnsupported, "rstrip of",
                [](Json& j) { j["added_tokens"][0]["rstrip"] = true; }},
           Case{Code::kUnsupported, "single_word of",
                [](Json& j) { j["added_tokens"][0]["single_word"] = true; }},
           Case{Code::kUnsupported, "added_tokens[0]: the field \"colour\"",
                [](Json& j) { j["added_tokens"][0]["colour"] = true; }},
           Case{Code::kCorrupt, "added_tokens[1]: \"<|end|>\" is added twice",
                [](Json& j) { j["added_tokens"][1]["content"] = "<|end|>"; }},
           Case{Code::kCorrupt, "\"<think>\": two tokens have the id 265",
                [](Json& j) { j["added_tokens"][1]["id"] = 265; }},
           Case{Code::kCorrupt, "\"<think>\": two tokens have the id 65",
                [](Json& j) { j["added_tokens"][1]["id"] = 65; }},
           Case{Code::kCorrupt, "\"<think>\": token id 9999999 is outside",
                [](Json& j) { j["added_tokens"][1]["id"] = 9999999; }},
           Case{Code::kCorrupt, "\"<think>\": token id -1 is outside",
                [](Json& j) { j["added_tokens"][1]["id"] = -1; }},
           Case{Code::kCorrupt, "\"<think>\": token id 2^63 or more is outside",
                [](Json& j) { j["added_tokens"][1]["id"] = uint64_t{1} << 63; }},
           Case{Code::kCorrupt, "\"hello\": token id 2^63 or more is outside",
                [](Json& j) { j["model"]["vocab"]["hello"] = uint64_t{1} << 63; }},
           Case{Code::kCorrupt, "\"hello\": token id -5 is outside",
                [](Json& j) { j["model"]["vocab"]["hello"] = -5; }},
           Case{Code::kCorrupt, "\"hello\": id 266, but the model's vocabulary gives it 259",
                [](Json& j) { j["added_tokens"][1]["content"] = "hello"; }},
           Case{Code::kCorrupt, "is added twice",  // Equal once they are normalised.
                [](Json& j) {
                  for (Json& token : j["added_tokens"]) token["normalized"] = true;
                  j["added_tokens"][0]["content"] = "e\u0301";
                  j["added_tokens"][1]["content"] = "\u00e9";
                }},
       }) {
    ExpectRefused(c);
  }
}

TEST(TokenizerFile, Templates) {
  Json with_template = TinyTokenizer();
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json start = {{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}};
  Json& processor = with_template["post_processor"];
  const Json byte_level = processor;
  processor = {{"type", "Sequence"},
               {"processors",
                {byte_level,
                 {{"type", "TemplateProcessing"},
                  {"single", {start, text, start}},
                  {"pair", {text}},
                  {"special_tokens", Json::object()}}}}};
  EXPECT_OK(Tokenizer::Parse(with_template.dump(), "t"));
  Json& single = processor["processors"][1]["single"];
  single = {text, start, text};
  EXPECT_THAT(Tokenizer::Parse(with_template.dump(), "t"),
              Fails(Code::kUnsupported, "a template with 2 texts is"));
  single = Json::array({start});
  EXPECT_THAT(Tokenizer::Parse(with_template.dump(), "t"),
              Fails(Code::kUnsupported, "a template with 0 texts is"));
  single = Json::array({{{"Word", 1}}});
  EXPECT_THAT(Tokenizer::Parse(with_template.dump(), "t"),
              Fails(Code::kUnsupported, "single: the field \"Word\""));
  single = Json::array({1});
  EXPECT_THAT(Tokenizer::Parse(with_template.dump(), "t"), Fails(Code::kCorrupt, "a number where"));
  single = "A";
  EXPECT_THAT(Tokenizer::Parse(with_template.dump(), "t"), Fails(Code::kCorrupt, "an array is"));
}

TEST(TokenizerFile, WhatMayBeLeftOut) {
  Json json = TinyTokenizer();
  for (const char* name :
       {"truncation", "padding", "added_tokens", "normalizer", "post_processor"}) {
    json.erase(name);
  }
  ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer, Tokenizer::Parse(json.dump(), "t"));
  EXPECT_EQ(tokenizer.vocab_size(), 265);
  EXPECT_TRUE(tokenizer.special_ids().empty());
}

}  // namespace
}  // namespace picchio
