#include "tokenizer/chat/qwen3_format.h"

#include <map>

#include "support/test_support.h"
#include "tokenizer/chat/chat_test_support.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

const ChatFormat& FormatNamed(std::string_view name) {
  auto format = ChatFormatNamed(name);
  EXPECT_OK(format);
  return **format;
}

// Whether a text of the conversation spells one of the tokenizer's tokens, or a part of one.
bool HasTokenLookAlikes(const ChatRequest& request) {
  std::string all;
  for (const ChatMessage& message : request.messages) {
    all += message.content + "\n" + message.reasoning.value_or("") + "\n";
    for (const ChatToolCall& call : message.tool_calls) all += call.name + call.arguments;
  }
  for (const char* part : {"<|", "think>", "tool_call>", "tool_response>"}) {
    if (all.find(part) != std::string::npos) return true;
  }
  return false;
}

// Renders; where no text looks like a token, the pieces give the ids of the rendered whole.
void CheckRendering(const ChatFormat& format, const ChatRequest& request,
                    const std::string& rendered, const std::string& name) {
  SCOPED_TRACE(fmt::format("{}: {}", format.name(), name));
  auto prompt = format.Render(request);
  ASSERT_OK(prompt);
  EXPECT_EQ(prompt->Rendered(), rendered);
  const Tokenizer& tokenizer = PublishedTokenizer("qwen3");
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids, prompt->Encode(tokenizer));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> whole,
                       tokenizer.Encode(rendered, SpecialTokens::kRecognise));
  if (!HasTokenLookAlikes(request)) {
    EXPECT_EQ(ids, whole);
    return;
  }
  size_t num_tokens = 0;
  for (const PromptPiece& piece : prompt->pieces()) num_tokens += piece.is_token;
  const auto is_added = [](int32_t id) { return id >= 151'643; };
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), is_added), static_cast<int>(num_tokens));
}

TEST(Qwen3Format, Golden) {
  const JsonValue cases = JsonFile("tokenizers/qwen3/chat.golden.json");
  EXPECT_EQ(cases.items.size(), 6u);
  for (const JsonValue& row : cases.items) {
    ChatRequest request;
    request.messages = MessagesOf(*row.Find("messages"));
    request.tools = ToolsOf(row.Find("tools"));
    request.options.add_generation_prompt = FlagOf(row, "gen", true);
    if (const JsonValue* variables = row.Find("kw")) {
      request.options.thinking = FlagOf(*variables, "enable_thinking", true);
    }
    CheckRendering(FormatNamed("qwen3"), request, TextOf(row, "rendered"), TextOf(row, "name"));
  }
}

// Renderings of an independent Jinja engine: tests/tools/reference_chats.mjs.
TEST(Qwen3Format, RendersAsTheTemplatesDo) {
  std::map<std::string, int> rows_of;
  for (const JsonValue& row : JsonLines("tokenizers/qwen3/chats.jsonl")) {
    ChatRequest request;
    request.messages = MessagesOf(*row.Find("messages"));
    request.tools = ToolsOf(row.Find("tools"));
    request.options.add_generation_prompt = FlagOf(row, "generate", true);
    request.options.thinking = FlagOf(row, "thinking", true);
    const std::string name = TextOf(row, "template");
    ++rows_of[name];
    CheckRendering(FormatNamed(name == "qwen3-first" ? "qwen3" : name), request,
                   TextOf(row, "rendered"), TextOf(row, "name"));
  }
  const std::map<std::string, int> expected = {
      {"qwen3", 36}, {"qwen3-first", 36}, {"qwen3-instruct-2507", 36}, {"qwen3-thinking-2507", 36}};
  EXPECT_EQ(rows_of, expected);
}

TEST(Qwen3Format, DevelopersAreSystems) {
  ChatRequest system;
  system.messages = {{.role = ChatRole::kSystem, .content = "S"},
                     {.role = ChatRole::kUser, .content = "Q"},
                     {.role = ChatRole::kSystem, .content = "T"}};
  ChatRequest developer = system;
  developer.messages[0].role = developer.messages[2].role = ChatRole::kDeveloper;
  ASSERT_OK_AND_ASSIGN(const Prompt expected, FormatNamed("qwen3").Render(system));
  ASSERT_OK_AND_ASSIGN(const Prompt prompt, FormatNamed("qwen3").Render(developer));
  EXPECT_EQ(prompt.pieces(), expected.pieces());
}

TEST(Qwen3Format, RefusesAnEmptyConversation) {
  EXPECT_THAT(FormatNamed("qwen3").Render({}), Fails(Code::kInvalidArgument, "without messages"));
}

// What is asked in a turn begins with all of the turn before, but for the reasoning that is
// dropped: so a key/value cache is good up to the last question.
TEST(Qwen3Format, PrefixesStay) {
  for (const char* name : {"qwen3", "qwen3-thinking-2507", "qwen3-instruct-2507"}) {
    const ChatFormat& format = FormatNamed(name);
    ChatRequest request;
    request.options.add_generation_prompt = false;
    std::vector<std::string> rendered;
    const std::vector<ChatMessage> messages = {
        {.role = ChatRole::kSystem, .content = "S"},
        {.role = ChatRole::kUser, .content = "1"},
        {.role = ChatRole::kAssistant,
         .content = "",
         .reasoning = "r",
         .tool_calls = {{"", "f", "{\"a\": 1}"}}},
        {.role = ChatRole::kTool, .content = "x"},
        {.role = ChatRole::kAssistant, .content = "A", .reasoning = "s"},
    };
    for (const ChatMessage& message : messages) {
      request.messages.push_back(message);
      ASSERT_OK_AND_ASSIGN(const Prompt prompt, format.Render(request));
      rendered.push_back(prompt.Rendered());
    }
    for (size_t i = 1; i < rendered.size(); ++i) {
      EXPECT_TRUE(rendered[i].starts_with(rendered[i - 1])) << name << " " << i;
    }
    request.messages.push_back({.role = ChatRole::kUser, .content = "2"});
    ASSERT_OK_AND_ASSIGN(const Prompt prompt, format.Render(request));
    EXPECT_TRUE(prompt.Rendered().starts_with(rendered[1])) << name;
    const bool drops_nothing = format.thinking() == ChatFormat::Thinking::kNever;
    EXPECT_EQ(prompt.Rendered().starts_with(rendered.back()), drops_nothing) << name;
  }
}

}  // namespace
}  // namespace picchio
