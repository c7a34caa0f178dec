#include "tokenizer/chat/json_value.h"

#include "support/test_support.h"
#include "tokenizer/chat/chat_test_support.h"

namespace picchio {
namespace {

std::string Printed(std::string_view text, JsonDialect dialect) {
  return PrintJson(JsonOf(text), dialect);
}

TEST(JsonValue, KeepsTheOrderOfMembers) {
  const JsonValue value = JsonOf(R"( {"z": 1, "a": {"y": [true, null], "b": "x"}} )");
  EXPECT_EQ(value.names, (std::vector<std::string>{"z", "a"}));
  const JsonValue* a = value.Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->names, (std::vector<std::string>{"y", "b"}));
  EXPECT_EQ(*a->FindString("b"), "x");
  EXPECT_EQ(a->FindString("y"), nullptr);
  EXPECT_EQ(value.Find("b"), nullptr);
  EXPECT_EQ(a->Find("y")->items[0].kind, JsonValue::Kind::kTrue);
  EXPECT_EQ(a->Find("y")->Find("b"), nullptr);
}

TEST(JsonValue, KnowsWhereEachValueStands) {
  const std::string text = R"({"a" :  [1,2 ] , "b":-1.5e3,"c": "\"}" })";
  const JsonValue value = JsonOf(text);
  const auto slice = [&](const char* name) {
    const JsonValue* found = value.Find(name);
    return text.substr(found->begin, found->end - found->begin);
  };
  EXPECT_EQ(slice("a"), "[1,2 ]");
  EXPECT_EQ(slice("b"), "-1.5e3");
  EXPECT_EQ(slice("c"), R"("\"}")");
}

TEST(JsonValue, IsStrict) {
  EXPECT_THAT(ParseJsonInOrder("{\"a\": 1} x", "w"), Fails(Code::kCorrupt, "w: not valid JSON"));
  EXPECT_THAT(ParseJsonInOrder("{\"a\": 1, \"a\": 2}", "w"), Fails(Code::kCorrupt, "twice"));
  EXPECT_THAT(ParseJsonInOrder("", "w"), Fails(Code::kCorrupt, "w: not valid JSON"));
  EXPECT_THAT(ParseJsonInOrder("\"\\ud83d\"", "w"), Fails(Code::kCorrupt, "w: not valid JSON"));
  EXPECT_THAT(ParseJsonInOrder(std::string(100, '['), "w"), Fails(Code::kCorrupt, "deeper"));
  const std::string text = R"({"a": [1, "\u00e9\ud83d\ude00", {"b": null}], "c": -1.5e3})";
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ParseJsonInOrder(text.substr(0, length), "w").has_value()) << length;
  }
}

// Expected values: json.dumps(json.loads(text), ensure_ascii=False) of Python 3.11.
TEST(JsonValue, PrintsAsPythonDoes) {
  using enum JsonDialect;
  const std::string text =
      R"({"b":[1,{"a":null,"c":true}],"a":"\u00e9\ud83d\ude00\u0001\u007f\/\b\f\n\r\t\"\\","":{},"e":[]})";
  EXPECT_EQ(Printed(text, kPython),
            "{\"b\": [1, {\"a\": null, \"c\": true}], \"a\": \"\u00e9\U0001F600\\u0001\x7f"
            "/\\b\\f\\n\\r\\t\\\"\\\\\", \"\": {}, \"e\": []}");
  const std::pair<const char*, const char*> numbers[] = {
      {"0", "0"},
      {"-0", "0"},
      {"1.50", "1.5"},
      {"1E5", "100000.0"},
      {"1e16", "1e+16"},
      {"1e15", "1000000000000000.0"},
      {"1234567890123456789012345", "1234567890123456789012345"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"1.5e-7", "1.5e-07"},
      {"-0.0", "-0.0"},
      {"1e22", "1e+22"},
      {"5e-324", "5e-324"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"100.0", "100.0"},
      {"0.1", "0.1"},
      {"123456.789e3", "123456789.0"},
      {"9007199254740993.0", "9007199254740992.0"},
      {"12345678901234567.0", "1.2345678901234568e+16"},
  };
  for (const auto& [written, printed] : numbers) EXPECT_EQ(Printed(written, kPython), printed);
}

// By the rules that the ryu crate documents (pretty::format64) and serde_json's integers.
TEST(JsonValue, PrintsAsRustDoes) {
  using enum JsonDialect;
  EXPECT_EQ(Printed(R"({"b": [1, {"a": null}], "a": "x\ny"})", kRust),
            R"({"b":[1,{"a":null}],"a":"x\ny"})");
  const std::pair<const char*, const char*> numbers[] = {
      {"20", "20"},
      {"-7", "-7"},
      {"-0", "-0.0"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e19"},
      {"1.0", "1.0"},
      {"1.2345e1", "12.345"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e16"},
      {"1234e30", "1.234e33"},
      {"0.001234", "0.001234"},
      {"0.00001", "0.00001"},
      {"0.000001", "1e-6"},
      {"1.5e-7", "1.5e-7"},
  };
  for (const auto& [written, printed] : numbers) EXPECT_EQ(Printed(written, kRust), printed);
}

}  // namespace
}  // namespace picchio
