#include "tokenizer/chat/qwen3_parser.h"

#include "support/test_support.h"
#include "tokenizer/chat/chat_format.h"
#include "tokenizer/chat/chat_test_support.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

using LineList = std::vector<std::string>;

// The same however the text is cut.
LineList Qwen3Lines(std::string_view answer, bool in_reasoning = false) {
  Qwen3Parser whole(in_reasoning);
  Qwen3Parser parts(in_reasoning);
  const LineList lines = Lines(ParseAnswer(whole, answer));
  EXPECT_EQ(Lines(ParseAnswer(parts, answer, 1)), lines) << answer;
  return lines;
}

TEST(Qwen3Parser, ReasoningAndContent) {
  EXPECT_EQ(Qwen3Lines("<think>\nWhy?\n\nSo.\n</think>\n\nHello\nyou\n"),
            (LineList{"reasoning: Why?\n\nSo.", "content: Hello\nyou\n"}));
  EXPECT_EQ(Qwen3Lines("Why?\n</think>\n\nHello<|im_end|>", true),
            (LineList{"reasoning: Why?", "content: Hello"}));
  EXPECT_EQ(Qwen3Lines("\n\nHello"), (LineList{"content: \n\nHello"}));
  EXPECT_EQ(Qwen3Lines("<think>\n\n</think>\n\nHello"), (LineList{"content: Hello"}));
  EXPECT_EQ(Qwen3Lines(""), LineList{});
}

TEST(Qwen3Parser, Calls) {
  EXPECT_EQ(
      Qwen3Lines("<think>\nr\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
                 "{\"b\": [1,  2], \"a\": \"é\"}}\n</tool_call>\n<tool_call>\n{\"arguments\": "
                 "{}, \"name\": \"g\"}\n</tool_call><|im_end|>"),
      (LineList{"reasoning: r", "content: I look.", "call f: {\"b\": [1,  2], \"a\": \"é\"}",
                "call g: {}"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>{\"name\": \"f\"}</tool_call>\nDone"),
            (LineList{"call f: {}", "content: Done"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>{\"name\": \"f\", \"parameters\": {\"x\": 1}}</tool_call>"),
            (LineList{"call f: {\"x\": 1}"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}"),
            (LineList{"call f: {\"x\": 1}"}));
}

TEST(Qwen3Parser, GoesOnWhereMarksAreMissing) {
  EXPECT_EQ(Qwen3Lines("<think>\ncut off\n"), (LineList{"reasoning: cut off\n"}));
  EXPECT_EQ(Qwen3Lines("a</think>b<think>c"), (LineList{"content: ab", "reasoning: c"}));
  EXPECT_EQ(Qwen3Lines("<think>a<think>b</think>c</think>d"),
            (LineList{"reasoning: ab", "content: cd"}));
  EXPECT_EQ(Qwen3Lines("x\n<tool_call>{\"name\": \"f\"}<tool_call>{\"name\": \"g\"}<|im_end|>"),
            (LineList{"content: x", "call f: {}", "call g: {}"}));
  EXPECT_EQ(Qwen3Lines("</tool_call>x"), (LineList{"content: x"}));
  // A call without the end of the reasoning before it.
  EXPECT_EQ(Qwen3Lines("<think>r\n<tool_call>{\"name\": \"f\"}</tool_call>\nmore</think>c"),
            (LineList{"reasoning: r", "call f: {}", "reasoning: more", "content: c"}));
}

TEST(Qwen3Parser, WhatIsNoCallIsContent) {
  EXPECT_EQ(Qwen3Lines("<tool_call>\nnot json\n</tool_call>after"),
            (LineList{"content: <tool_call>\nnot json\n</tool_call>after"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>{\"name\": \"f\", \"arguments\": {\"a"),
            (LineList{"content: <tool_call>{\"name\": \"f\", \"arguments\": {\"a"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>{\"name\": 1}</tool_call>"),
            (LineList{"content: <tool_call>{\"name\": 1}</tool_call>"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>[]</tool_call>"),
            (LineList{"content: <tool_call>[]</tool_call>"}));
  EXPECT_EQ(Qwen3Lines("<tool_call>a<think>b</think></tool_call>"),
            (LineList{"content: <tool_call>a<think>b</think></tool_call>"}));
}

// With the real tokenizer: a rendered answer comes back as it was, characters over several tokens
// and all, and text that looks like a mark is text.
TEST(Qwen3Parser, ReadsWhatTheFormatRenders) {
  const Tokenizer& tokenizer = PublishedTokenizer("qwen3");
  ASSERT_OK_AND_ASSIGN(const ChatFormat* const format, ChatFormatNamed("qwen3"));
  const ChatMessage answer = {
      .role = ChatRole::kAssistant,
      .content = "Ὦ 🐦‍⬛ \U0001F9DC\U0001F3FE says </think> and <tool_call>",
      .reasoning = "𒀭 <think>\n\nor not",
      .tool_calls = {{"", "f", "{\"x\": \"\U0001F9DC </tool_call>\"}"}, {"", "g", "{}"}}};
  ChatRequest request;
  request.messages = {{.role = ChatRole::kUser, .content = "Q"}};
  ASSERT_OK_AND_ASSIGN(const Prompt before, format->Render(request));
  request.messages.push_back(answer);
  request.options.add_generation_prompt = false;
  ASSERT_OK_AND_ASSIGN(const Prompt after, format->Render(request));
  ASSERT_OK_AND_ASSIGN(const auto asked, before.Encode(tokenizer));
  ASSERT_OK_AND_ASSIGN(auto ids, after.Encode(tokenizer));
  ids.pop_back();  // The line end behind <|im_end|>.
  ASSERT_TRUE(std::equal(asked.begin(), asked.end(), ids.begin()));

  ChatTokenStream stream(tokenizer, format->NewParser(ChatOptions()));
  std::vector<ChatEvent> events;
  const auto append = [&](const std::vector<ChatEvent>& more) {
    events.insert(events.end(), more.begin(), more.end());
  };
  for (size_t i = asked.size(); i < ids.size(); ++i) append(stream.Push(ids[i]));
  append(stream.Finish());
  EXPECT_EQ(Lines(events),
            (LineList{"reasoning: " + *answer.reasoning, "content: " + answer.content,
                      "call f: " + answer.tool_calls[0].arguments, "call g: {}"}));
}

TEST(ChatTokenStream, NeverGivesPartsOfCharacters) {
  const Tokenizer& tokenizer = PublishedTokenizer("qwen3");
  ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer.Encode("\U00013000", SpecialTokens::kAsText));
  ASSERT_GT(ids.size(), 1u);
  ChatTokenStream stream(tokenizer, std::make_unique<Qwen3Parser>(false));
  EXPECT_TRUE(stream.Push(ids[0]).empty());
  // A control token in the middle of a character, and an id that is no token.
  const auto events = stream.Push(*tokenizer.AddedTokenId("<think>"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "\uFFFD");
  EXPECT_TRUE(stream.Push(1 << 20).empty());
  EXPECT_TRUE(stream.Push(ids[0]).empty());
  EXPECT_EQ(Lines(stream.Finish()), LineList{"reasoning: \uFFFD"});
}

}  // namespace
}  // namespace picchio
