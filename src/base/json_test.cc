#include "base/json.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ParseJson, BuildsWhatStandsThere) {
  ASSERT_OK_AND_ASSIGN(
      const Json json,
      ParseJson(R"({"a": [1, -2, 3.5, {"b": null}], "c": "\u00e9", "d": [[], {}], "e": true})",
                "x"));
  EXPECT_EQ(json["a"][0], 1);
  EXPECT_EQ(json["a"][1], -2);
  EXPECT_EQ(json["a"][2], 3.5);
  EXPECT_TRUE(json["a"][3]["b"].is_null());
  EXPECT_EQ(json["c"], "\xC3\xA9");
  EXPECT_EQ(json["d"].size(), 2u);
  EXPECT_EQ(json["e"], true);
}

TEST(ParseJson, ScalarsStandAlone) {
  ASSERT_OK_AND_ASSIGN(const Json json, ParseJson("17", "x"));
  EXPECT_EQ(json, 17);
}

TEST(ParseJson, RefusesDuplicateKeys) {
  EXPECT_THAT(ParseJson(R"({"a": 1, "b": {"c": 1, "c": 2}})", "x"),
              Fails(Code::kCorrupt, "\"c\" stands twice"));
  EXPECT_OK(ParseJson(R"([{"a": 1}, {"a": 2}])", "x"));
}

TEST(ParseJson, RefusesBombs) {
  EXPECT_THAT(ParseJson(std::string(1 << 20, '['), "x"), Fails(Code::kCorrupt, "64 levels"));
  EXPECT_OK(ParseJson(std::string(64, '[') + std::string(64, ']'), "x"));
}

TEST(ParseJson, EveryTruncationIsRefused) {
  const std::string text = R"({"a": [1, 2.5e3], "b": "text", "c": {"d": false}})";
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THAT(ParseJson(text.substr(0, length), "config.json"),
                Fails(Code::kCorrupt, "config.json"))
        << length;
  }
  EXPECT_THAT(ParseJson(text + "x", "x"), Fails(Code::kCorrupt, "not valid JSON"));
  EXPECT_THAT(ParseJson(text + '\0', "x"), Fails(Code::kCorrupt, "NUL"));
  EXPECT_THAT(ParseJson(text + '\0' + "{", "x"), Fails(Code::kCorrupt, "NUL"));
}

TEST(ParseJson, SaysWhatAFileIsInstead) {
  EXPECT_THAT(ParseJson("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "x"),
              Fails(Code::kUnsupported, "x is a Git LFS pointer"));
  EXPECT_THAT(ParseJson("<!DOCTYPE html><html></html>", "x"),
              Fails(Code::kUnsupported, "x is a web page"));
  EXPECT_THAT(ParseJson("\xEF\xBB\xBF{}", "x"),
              Fails(Code::kCorrupt, "x: begins with a byte-order"));
}

TEST(ParseJson, RefusesInvalidUtf8) {
  EXPECT_THAT(ParseJson("\"\xC3\"", "x"), Fails(Code::kCorrupt, "not valid JSON"));
}

TEST(WholeNumber, NeverWraps) {
  const auto of = [](const char* text) { return WholeNumber(*ParseJson(text, "x")); };
  EXPECT_EQ(of("-7"), -7);
  EXPECT_EQ(of("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(of("9223372036854775808"), INT64_MAX);
  EXPECT_EQ(of("18446744073709551615"), INT64_MAX);
  EXPECT_EQ(of("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(of("1.0"), std::nullopt);
  EXPECT_EQ(of("99999999999999999999"), std::nullopt);  // Read as a floating-point number.
  EXPECT_EQ(of("\"1\""), std::nullopt);
}

TEST(JsonTypeName, NamesEachType) {
  EXPECT_EQ(JsonTypeName(Json(nullptr)), "null");
  EXPECT_EQ(JsonTypeName(Json(true)), "a boolean");
  EXPECT_EQ(JsonTypeName(Json(1.5)), "a number");
  EXPECT_EQ(JsonTypeName(Json("x")), "a string");
  EXPECT_EQ(JsonTypeName(Json::array()), "an array");
  EXPECT_EQ(JsonTypeName(Json::object()), "an object");
}

}  // namespace
}  // namespace picchio
