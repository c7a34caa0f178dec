#include "tokenizer/chat/chat_tool.h"

#include "support/test_support.h"

namespace picchio {
namespace {

std::string Function(std::string_view members) {
  return fmt::format(R"([{{"type": "function", "function": {{{}}}}}])", members);
}

TEST(ChatTool, Parses) {
  auto tools = ParseChatTools(
      R"([{"type": "function", "function": {"name": "a.b-c_9", "description": "d",
          "parameters": {"type": "object", "z": 1, "a": 2}, "strict": true}},
          {"function": {"name": "plain", "description": null, "parameters": null},
           "type": "function"}])",
      "tools");
  ASSERT_OK(tools);
  ASSERT_EQ(tools->size(), 2u);
  EXPECT_EQ((*tools)[0].name, "a.b-c_9");
  EXPECT_EQ((*tools)[0].description, "d");
  EXPECT_EQ(PrintJson(*(*tools)[0].parameters(), JsonDialect::kPython),
            R"({"type": "object", "z": 1, "a": 2})");
  EXPECT_EQ((*tools)[1].name, "plain");
  EXPECT_EQ((*tools)[1].description, "");
  EXPECT_EQ((*tools)[1].parameters(), nullptr);
  ASSERT_OK_AND_ASSIGN(const auto none, ParseChatTools("[]", "tools"));
  EXPECT_TRUE(none.empty());
}

TEST(ChatTool, Refuses) {
  const auto refusal = [](std::string_view json, std::string_view part) {
    EXPECT_THAT(ParseChatTools(json, "tools"), Fails(Code::kInvalidArgument, part)) << json;
  };
  refusal("{}", "tools: no array of tools");
  refusal("[1]", "tools[0]: no object");
  refusal(R"([{"function": {"name": "a"}}])", "\"type\" is no string, expected \"function\"");
  refusal(R"([{"type": "web_search"}])", "\"type\" is \"web_search\"");
  refusal(R"([{"type": "function"}])", "no object \"function\"");
  refusal(Function(R"("title": "x")"), "tools[0]: \"name\" is no string");
  refusal(Function(R"("name": "")"), "\"name\" is \"\", expected 1 to 128 letters");
  refusal(Function(R"("name": "a b")"), "\"name\" is \"a b\"");
  refusal(Function(R"("name": "<|call|>")"), "letters, digits");
  refusal(Function(fmt::format(R"("name": "{}")", std::string(129, 'x'))), "1 to 128");
  refusal(Function(R"("name": "f", "description": 1)"), "the \"description\" of f is no string");
  refusal(Function(R"("name": "f", "parameters": [])"), "the \"parameters\" of f are no object");
  refusal(R"([{"type": "function", "function": {"name": "a"}},
              {"type": "function", "function": {"name": "a"}}])",
          "tools[1]: a second function a");
  EXPECT_THAT(ParseChatTools("[", "tools"), Fails(Code::kCorrupt, "tools: not valid JSON"));
}

}  // namespace
}  // namespace picchio
