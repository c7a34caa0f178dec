#include "tokenizer/chat/chat_template.h"

#include "support/test_support.h"

namespace picchio {
namespace {

std::string Recognised(std::string_view text) {
  auto format = ChatFormatOfTemplate(text, "model/chat_template.jinja");
  EXPECT_OK(format);
  return format.has_value() ? std::string((*format)->name()) : "";
}

std::string PublishedTemplate(std::string_view name) {
  return ReadAll(TestData(fmt::format("tokenizers/qwen3/templates/{}.jinja", name)));
}

TEST(ChatTemplate, RecognisesThePublished) {
  for (const char* name : {"qwen3", "qwen3-thinking-2507", "qwen3-instruct-2507"}) {
    EXPECT_EQ(Recognised(PublishedTemplate(name)), name);
    EXPECT_EQ(Recognised(PublishedTemplate(name) + "\n\n"), name);
  }
  ASSERT_OK_AND_ASSIGN(const std::string first, ReadChatTemplate(TestData("tokenizers/qwen3")));
  EXPECT_EQ(Recognised(first), "qwen3");
  std::string crlf;
  for (const char c : first) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(Recognised(crlf), "qwen3");
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnow) {
  const auto refused = [](std::string_view text) {
    EXPECT_THAT(ChatFormatOfTemplate(text, "m/chat_template.jinja"),
                Fails(Code::kUnsupported,
                      "m/chat_template.jinja: a chat template that this version does not know"));
  };
  refused("");
  refused("{{ messages }}");
  std::string changed = PublishedTemplate("qwen3");
  changed.insert(changed.find("# Tools"), " ");
  refused(changed);
  // Not at the end, a line end counts.
  refused("\n" + PublishedTemplate("qwen3"));
}

// The parts that all published revisions of gpt-oss's template have; all must be there.
TEST(ChatTemplate, RecognisesHarmonyByItsParts) {
  const std::vector<std::string> parts = {
      R"({%- macro render_typescript_type(param_spec, required_params, is_nullable=false) -%})",
      R"({%- macro render_tool_namespace(namespace_name, tools) -%})",
      R"({%- macro build_system_message() -%})",
      R"({%- set model_identity = "You are ChatGPT, a large language model trained by OpenAI." %})",
      R"({{- "Reasoning: " + reasoning_effort + "\n\n" }})",
      R"({{- "# Valid channels: analysis, commentary, final. Channel must be included for every message." }})",
      R"({{- "<|start|>system<|message|>" }})",
      R"({{- "<|start|>developer<|message|>" }})",
      R"({{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }})",
      R"({{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }})",
      R"({{- " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }})",
      R"({{- "<|start|>user<|message|>" + message.content + "<|end|>" }})",
  };
  for (size_t left_out = 0; left_out <= parts.size(); ++left_out) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i != left_out) text += parts[i] + "\n";
    }
    const auto format = ChatFormatOfTemplate(text, "t");
    EXPECT_EQ(format.has_value(), left_out == parts.size()) << left_out;
    if (format.has_value()) {
      EXPECT_EQ((*format)->name(), "harmony");
    }
  }
}

TEST(ChatTemplate, ReadsTheFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(ReadChatTemplate(folder.path()), Fails(Code::kNotFound, "no chat template"));
  const auto config = [&](std::string_view text) {
    WriteAll(folder / "tokenizer_config.json", text);
    return ReadChatTemplate(folder.path());
  };
  EXPECT_THAT(config("{}"), Fails(Code::kNotFound, "no chat template"));
  EXPECT_THAT(config(R"({"chat_template": null})"), Fails(Code::kNotFound, "no chat template"));
  EXPECT_THAT(config(R"({"chat_template": 1})"), Fails(Code::kUnsupported, "neither a string"));
  EXPECT_THAT(config("{"), Fails(Code::kCorrupt, "tokenizer_config.json: not valid JSON"));
  EXPECT_EQ(*config(R"({"chat_template": "a\nb"})"), "a\nb");
  EXPECT_EQ(*config(R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                          {"name": "default", "template": "d"}]})"),
            "d");
  EXPECT_THAT(config(R"({"chat_template": [{"name": "rag", "template": "t"}]})"),
              Fails(Code::kUnsupported, "\"default\""));
  WriteAll(folder / "chat_template.jinja", "{{ file }}");
  EXPECT_EQ(*ReadChatTemplate(folder.path()), "{{ file }}");
}

TEST(ChatFormat, Names) {
  for (const ChatFormat* format : ChatFormats()) {
    ASSERT_OK_AND_ASSIGN(const ChatFormat* const found, ChatFormatNamed(format->name()));
    EXPECT_EQ(found, format);
  }
  EXPECT_THAT(ChatFormatNamed("llama"),
              Fails(Code::kInvalidArgument,
                    "no chat format \"llama\", expected one of qwen3, qwen3-thinking-2507, "
                    "qwen3-instruct-2507, harmony"));
  using enum ChatFormat::Thinking;
  EXPECT_EQ((*ChatFormatNamed("qwen3"))->thinking(), kSwitchable);
  EXPECT_EQ((*ChatFormatNamed("qwen3-thinking-2507"))->thinking(), kAlways);
  EXPECT_EQ((*ChatFormatNamed("qwen3-instruct-2507"))->thinking(), kNever);
  EXPECT_EQ((*ChatFormatNamed("harmony"))->thinking(), kAlways);
}

}  // namespace
}  // namespace picchio
