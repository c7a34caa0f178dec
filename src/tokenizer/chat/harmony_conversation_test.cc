#include "tokenizer/chat/harmony_conversation.h"

#include "support/test_support.h"
#include "tokenizer/chat/chat_test_support.h"
#include "tokenizer/chat/harmony_format.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

const char kFolder[] = "tokenizers/gpt_oss/harmony/";

HarmonySystem SystemOf(const JsonValue& json, const JsonValue& builtin_tools) {
  HarmonySystem system;
  system.model_identity = TextOf(json, "model_identity");
  system.knowledge_cutoff = TextOf(json, "knowledge_cutoff");
  system.date = TextOf(json, "conversation_start_date");
  const std::string effort = TextOf(json, "reasoning_effort");
  system.effort = effort == "low"    ? ReasoningEffort::kLow
                  : effort == "high" ? ReasoningEffort::kHigh
                                     : ReasoningEffort::kMedium;
  system.channels.clear();
  for (const JsonValue& item : json.Find("valid_channels")->items) {
    system.channels.push_back(item.text);
  }
  system.channel_required = FlagOf(json, "channel_required", false);
  for (const JsonValue& item : json.Find("builtin_tools")->items) {
    const JsonValue& tools = *builtin_tools.Find(item.text);
    system.builtin_tools.push_back(
        {item.text, TextOf(tools, "description"), ToolsOf(tools.Find("tools"))});
  }
  return system;
}

std::vector<HarmonyMessage> HarmonyMessagesOf(const JsonValue& array) {
  std::vector<HarmonyMessage> messages;
  for (const JsonValue& item : array.items) {
    const std::string name = TextOf(item, "name");
    messages.push_back({name.empty() ? TextOf(item, "role") : name, TextOf(item, "recipient"),
                        TextOf(item, "channel"), TextOf(item, "content_type"),
                        TextOf(item, "content")});
  }
  return messages;
}

std::string WithoutTrailingSpace(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

TEST(HarmonyConversation, Golden) {
  const Tokenizer& tokenizer = PublishedTokenizer("gpt_oss");
  const JsonValue builtin_tools = JsonFile(std::string(kFolder) + "builtin_tools.json");
  int num_rendered = 0;
  for (const JsonValue& row : JsonFile(std::string(kFolder) + "conversations.json").items) {
    if (TextOf(row, "kind") != "render") continue;
    SCOPED_TRACE(TextOf(row, "name"));
    ++num_rendered;
    HarmonyConversation conversation;
    const JsonValue& system = *row.Find("system");
    if (system.IsObject()) conversation.system = SystemOf(system, builtin_tools);
    const JsonValue& developer = *row.Find("developer");
    if (developer.IsObject()) {
      conversation.developer.emplace();
      if (const std::string* text = developer.FindString("instructions")) {
        conversation.developer->instructions = *text;
      }
      conversation.developer->functions = ToolsOf(developer.Find("tools"));
    }
    conversation.messages = HarmonyMessagesOf(*row.Find("messages"));
    const JsonValue& how = *row.Find("render");
    if (FlagOf(how, "auto_drop_analysis", true)) DropFinishedAnalysis(conversation.messages);
    const Prompt prompt = RenderHarmony(conversation, how.Find("next_role")->IsString());
    std::string rendered = prompt.Rendered();
    if (FlagOf(how, "drop_last_token", false)) {
      ASSERT_TRUE(rendered.ends_with("<|end|>"));
      rendered.resize(rendered.size() - std::string_view("<|end|>").size());
    }
    const std::string expected =
        WithoutTrailingSpace(ReadAll(TestData(kFolder + TextOf(row, "expected"))));
    EXPECT_EQ(rendered, expected);

    ASSERT_OK_AND_ASSIGN(const auto ids, prompt.Encode(tokenizer));
    ASSERT_OK_AND_ASSIGN(const auto whole,
                         tokenizer.Encode(prompt.Rendered(), SpecialTokens::kRecognise));
    EXPECT_EQ(ids, whole);
  }
  EXPECT_EQ(num_rendered, 20);
}

bool operator==(const HarmonyMessage& a, const HarmonyMessage& b) {
  return a.author == b.author && a.recipient == b.recipient && a.channel == b.channel &&
         a.content_type == b.content_type && a.content == b.content;
}

// The same conversations in the API's terms, for those that have an assistant.
TEST(HarmonyConversation, OfChats) {
  int num_chats = 0;
  for (const JsonValue& row : JsonFile(std::string(kFolder) + "conversations.json").items) {
    const JsonValue* chat = row.Find("chat");
    if (chat == nullptr) continue;
    SCOPED_TRACE(TextOf(row, "name"));
    ++num_chats;
    std::vector<HarmonyMessage> expected = HarmonyMessagesOf(*row.Find("messages"));
    DropFinishedAnalysis(expected);
    for (HarmonyMessage& message : expected) {
      // Models were trained with answers that say to whom they go; the library leaves it open.
      if (!message.author.starts_with("functions.")) continue;
      message.recipient = "assistant";
      message.channel = "commentary";
    }
    ChatRequest request;
    request.messages = MessagesOf(*chat);
    ASSERT_OK_AND_ASSIGN(const HarmonyConversation conversation, HarmonyConversationOf(request));
    EXPECT_TRUE(conversation.system.has_value());
    EXPECT_FALSE(conversation.developer.has_value());
    ASSERT_EQ(conversation.messages.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(conversation.messages[i] == expected[i]) << i;
    }
  }
  EXPECT_EQ(num_chats, 4);
}

// The public test data of later versions of the library (test_multi_turn_auto_drop_analysis): an
// answer under way keeps its analysis, finished ones before it have lost theirs.
TEST(HarmonyConversation, DropsTheAnalysisOfFinishedTurns) {
  const auto analysis = [](const char* text) {
    return HarmonyMessage{"assistant", "", "analysis", "", text};
  };
  const auto final = [](const char* text) {
    return HarmonyMessage{"assistant", "", "final", "", text};
  };
  const HarmonyMessage user = {"user", "", "", "", "?"};
  const HarmonyMessage call = {"assistant", "functions.python", "commentary", "", "{}"};
  std::vector<HarmonyMessage> messages = {user,          analysis("1"), final("one"),  user,
                                          analysis("2"), call,          analysis("3"), final("two"),
                                          user,          analysis("4"), call};
  DropFinishedAnalysis(messages);
  std::string contents;
  for (const HarmonyMessage& message : messages) contents += message.content + ",";
  EXPECT_EQ(contents, "?,one,?,{},two,?,4,{},");
}

}  // namespace
}  // namespace picchio
