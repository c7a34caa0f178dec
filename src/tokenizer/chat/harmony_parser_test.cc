#include "tokenizer/chat/harmony_parser.h"

#include <sstream>

#include "support/test_support.h"
#include "tokenizer/chat/chat_format.h"
#include "tokenizer/chat/chat_test_support.h"
#include "tokenizer/tokenizer.h"

namespace picchio {
namespace {

// The same however the text is cut.
std::vector<std::string> HarmonyLines(std::string_view answer) {
  HarmonyParser whole;
  HarmonyParser parts;
  const std::vector<std::string> lines = Lines(ParseAnswer(whole, answer));
  EXPECT_EQ(Lines(ParseAnswer(parts, answer, 1)), lines) << answer;
  return lines;
}

using LineList = std::vector<std::string>;

// What the messages of a reference conversation are as events.
LineList ExpectedLines(const JsonValue& messages) {
  LineList lines;
  for (const JsonValue& message : messages.items) {
    const std::string recipient = TextOf(message, "recipient");
    const std::string content = TextOf(message, "content");
    if (TextOf(message, "role") == "tool" ||
        (recipient.empty() && TextOf(message, "channel") == "analysis")) {
      lines.push_back("reasoning: " + content);
    } else if (recipient.empty()) {
      lines.push_back("content: " + content);
    } else {
      lines.push_back("call " + recipient + ": " + content);
    }
  }
  return lines;
}

TEST(HarmonyParser, Golden) {
  const Tokenizer& tokenizer = PublishedTokenizer("gpt_oss");
  int num_parsed = 0;
  const std::string folder = "tokenizers/gpt_oss/harmony/";
  for (const JsonValue& row : JsonFile(folder + "conversations.json").items) {
    if (TextOf(row, "kind") != "parse") continue;
    SCOPED_TRACE(TextOf(row, "name"));
    ++num_parsed;
    const std::string text = ReadAll(TestData(folder + TextOf(row, "expected")));
    std::vector<int32_t> ids;
    if (TextOf(row, "input_format") == "token ids") {
      std::istringstream numbers(text);
      for (int32_t id = 0; numbers >> id;) ids.push_back(id);
    } else {
      ASSERT_OK_AND_ASSIGN(ids, tokenizer.Encode(text, SpecialTokens::kRecognise));
    }
    ChatTokenStream stream(tokenizer, std::make_unique<HarmonyParser>());
    std::vector<ChatEvent> events;
    for (const int32_t id : ids) {
      for (ChatEvent& event : stream.Push(id)) events.push_back(std::move(event));
    }
    for (ChatEvent& event : stream.Finish()) events.push_back(std::move(event));
    LineList lines = Lines(events);
    // Two messages of reasoning, parted by an empty line.
    if (!lines.empty() && lines.back().starts_with("reasoning: \n\n")) {
      lines.back().replace(0, 13, "reasoning: ");
    }
    EXPECT_EQ(lines, ExpectedLines(*row.Find("messages")));
  }
  EXPECT_EQ(num_parsed, 3);
}

TEST(HarmonyParser, Channels) {
  EXPECT_EQ(
      HarmonyLines("<|channel|>analysis<|message|>Hm.\n<|end|><|start|>assistant<|channel|>final"
                   "<|message|>Hello\nyou<|return|>"),
      (LineList{"reasoning: Hm.\n", "content: Hello\nyou"}));
  EXPECT_EQ(
      HarmonyLines("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
                   "commentary<|message|>I look.<|end|><|start|>assistant<|channel|>analysis"
                   "<|message|>b<|end|><|start|>assistant to=functions.f<|channel|>commentary "
                   "<|constrain|>json<|message|>{\"x\": 1}<|call|>"),
      (LineList{"reasoning: a", "content: I look.", "reasoning: \n\nb", "call f: {\"x\": 1}"}));
  EXPECT_EQ(HarmonyLines(""), LineList{});
}

TEST(HarmonyParser, GoesOnWhereTheFormatIsBroken) {
  // No channel.
  EXPECT_EQ(HarmonyLines("<|message|>Hi<|return|>"), LineList{"content: Hi"});
  EXPECT_EQ(HarmonyLines(" to=functions.f<|message|>{}<|call|>"), LineList{"call f: {}"});
  // Another channel.
  EXPECT_EQ(HarmonyLines("<|channel|>answer<|message|>Hi<|end|>"), LineList{"content: Hi"});
  // No message.
  EXPECT_EQ(HarmonyLines("<|channel|>final Hi there<|return|>"), LineList{"content: Hi there"});
  EXPECT_EQ(
      HarmonyLines("<|channel|>analysis Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi"),
      (LineList{"reasoning: Hm", "content: Hi"}));
  EXPECT_EQ(HarmonyLines("<|channel|>commentary to=functions.f json {\"x\": 1}<|call|>"),
            LineList{"call f: {\"x\": 1}"});
  EXPECT_EQ(HarmonyLines("Hi there"), LineList{"content: Hi there"});
  EXPECT_EQ(HarmonyLines("<|start|>assistant<|channel|>final<|message|>Hi"),
            LineList{"content: Hi"});
  // No end, no start.
  EXPECT_EQ(HarmonyLines(
                "<|channel|>analysis<|message|>Hm<|start|>assistant<|channel|>final<|message|>Hi"),
            (LineList{"reasoning: Hm", "content: Hi"}));
  EXPECT_EQ(HarmonyLines("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Hi"),
            (LineList{"reasoning: Hm", "content: Hi"}));
  EXPECT_EQ(
      HarmonyLines("<|channel|>analysis<|message|>Hm<|end|>assistant<|channel|>final<|message|>Hi"),
      (LineList{"reasoning: Hm", "content: Hi"}));
  EXPECT_EQ(HarmonyLines("<|channel|>final<|message|>Hi<|end|>and more"),
            (LineList{"content: Hi\n\nand more"}));
  // Marks within content.
  EXPECT_EQ(HarmonyLines("<|channel|>final<|message|>a<|message|>b<|constrain|>c"),
            LineList{"content: abc"});
  // A turn of somebody else.
  EXPECT_EQ(HarmonyLines("<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>Yo<|end|>"),
            (LineList{"content: Hi", "reasoning: Yo"}));
  // Nothing but marks.
  EXPECT_EQ(HarmonyLines("<|start|><|start|><|channel|><|channel|><|end|><|return|>"), LineList{});
}

TEST(HarmonyParser, CutCallsAreContent) {
  const std::string header = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
  EXPECT_EQ(HarmonyLines(header + "{\"x\": [1"), LineList{"content: {\"x\": [1"});
  EXPECT_EQ(HarmonyLines(header + "{\"x\": 1}"), LineList{"call f: {\"x\": 1}"});
  EXPECT_EQ(HarmonyLines(header + "{\"x\": [1<|call|>"), LineList{"call f: {\"x\": [1"});
  EXPECT_EQ(HarmonyLines("<|channel|>analysis to=python code<|message|>print(1)"),
            LineList{"call python: print(1)"});
  EXPECT_EQ(HarmonyLines(header + "<|call|>"), LineList{"call f: {}"});
  EXPECT_EQ(HarmonyLines(" to=functions.f<|call|>"), LineList{"call f: {}"});
}

TEST(HarmonyParser, LongTextWithoutHeaderIsNotHeldBack) {
  HarmonyParser parser;
  std::vector<ChatEvent> events;
  std::string said;
  for (int i = 0; i < 100; ++i) {
    parser.PushText("wörter ", events);
    said += "wörter ";
  }
  ASSERT_FALSE(events.empty());
  parser.Finish(events);
  EXPECT_EQ(Lines(events), LineList{"content: " + said});
}

TEST(HarmonyParser, StopIds) {
  const Tokenizer& tokenizer = PublishedTokenizer("gpt_oss");
  ASSERT_OK_AND_ASSIGN(const ChatFormat* const harmony, ChatFormatNamed("harmony"));
  ASSERT_OK_AND_ASSIGN(const auto ids, harmony->StopIds(tokenizer));
  EXPECT_EQ(ids, (std::vector<int32_t>{199'999, 200'002, 200'012}));
  ASSERT_OK_AND_ASSIGN(const ChatFormat* const qwen3, ChatFormatNamed("qwen3"));
  EXPECT_THAT(qwen3->StopIds(tokenizer), Fails(Code::kUnsupported, "no token <|im_end|>"));
}

}  // namespace
}  // namespace picchio
