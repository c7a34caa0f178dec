#include "tokenizer/chat/harmony_types.h"

#include "support/test_support.h"
#include "tokenizer/chat/chat_test_support.h"

namespace picchio {
namespace {

std::string TypeOf(std::string_view schema) { return HarmonyType(JsonOf(schema), ""); }

TEST(HarmonyTypes, Simple) {
  EXPECT_EQ(TypeOf(R"({"type": "string"})"), "string");
  EXPECT_EQ(TypeOf(R"({"type": "string", "enum": ["a", 1, "b"]})"), "\"a\" | \"b\"");
  EXPECT_EQ(TypeOf(R"({"type": "string", "enum": []})"), "string");
  EXPECT_EQ(TypeOf(R"({"type": "integer"})"), "number");
  EXPECT_EQ(TypeOf(R"({"type": "boolean"})"), "boolean");
  EXPECT_EQ(TypeOf(R"({"type": ["integer", "null", 3]})"), "number | null");
  EXPECT_EQ(TypeOf(R"({"type": []})"), "any");
  EXPECT_EQ(TypeOf(R"({"type": "null"})"), "any");
  EXPECT_EQ(TypeOf(R"({})"), "any");
  EXPECT_EQ(TypeOf(R"({"type": "array"})"), "Array<any>");
  EXPECT_EQ(TypeOf(R"({"type": "array", "items": {"type": "array", "items": true}})"), "any[][]");
  EXPECT_EQ(TypeOf("true"), "any");
}

// Expected: by the library's rules, worked out by hand; the public test data (harmony_conversation
// _test.cc) has no nested objects.
TEST(HarmonyTypes, Nested) {
  EXPECT_EQ(TypeOf(R"({"type": "object"})"), "{\n}");
  EXPECT_EQ(TypeOf(R"({"type": "object", "required": ["a"], "properties": {
                "b": {"type": "object", "description": "inner", "properties": {
                  "c": {"type": "number", "nullable": true, "default": 0.5}}},
                "a": {"type": "array", "items": {"type": "object", "properties": {
                  "d": {"type": "string", "title": "D", "examples": ["x", 1]}}}}}})"),
            "{\n"
            "// inner\n"
            "b?:     // inner\n"
            "{\n"
            "    c?: number | null, // default: 0.5\n"
            "    },\n"
            "a: {\n"
            "    // D\n"
            "    //\n"
            "    // Examples:\n"
            "    // - \"x\"\n"
            "    d?: string,\n"
            "    }[],\n"
            "}");
}

TEST(HarmonyTypes, Variants) {
  EXPECT_EQ(TypeOf(R"({"oneOf": [{"type": "string", "description": "s", "default": "d"},
                                 {"type": "string", "enum": ["e"], "default": "e"},
                                 {"type": "number", "nullable": true, "default": 1}]})"),
            "\n | string // s default: \"d\"\n | \"e\" // default: \"e\"\n | number | null "
            "// default: 1");
  EXPECT_EQ(TypeOf(R"({"type": "object", "required": ["x"], "properties": {
                "x": {"description": "same", "default": "e", "enum": ["e"], "oneOf": [
                  {"type": "string", "description": "same"},
                  {"type": "boolean", "description": "other"}]},
                "y": {"description": "of none", "default": 1, "oneOf": {}, "type": "string"}}})"),
            "{\n"
            "// default: e\n"
            "x:\n"
            " | string\n"
            " | boolean // other\n"
            ",\n"
            "y?: string,\n"
            "}");
}

TEST(HarmonyTypes, Namespaces) {
  EXPECT_EQ(HarmonyToolsSection({{"empty", "Line.\r\n\nTwo", {}}, {"none", "", {}}}),
            "# Tools\n\n## empty\n\nLine.\n\nTwo\n\n## none\n");
  auto tools = ParseChatTools(
      R"([{"type": "function", "function": {"name": "f", "description": "a\nb\n"}},
          {"type": "function", "function": {"name": "g", "parameters": {}}}])",
      "tools");
  ASSERT_OK(tools);
  EXPECT_EQ(
      HarmonyToolsSection({{"functions", "", *tools}}),
      "# Tools\n\n## functions\n\nnamespace functions {\n\n// a\n// b\ntype f = () => any;\n\n"
      "type g = (_: any) => any;\n\n} // namespace functions");
}

}  // namespace
}  // namespace picchio
