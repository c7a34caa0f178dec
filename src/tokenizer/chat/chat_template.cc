#include "tokenizer/chat/chat_template.h"

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "tokenizer/chat/json_value.h"

namespace picchio {
namespace {

// No published template comes near it.
constexpr uint64_t kMaxTemplateBytes = 1 << 20;
// tokenizer_config.json lists all added tokens; some have thousands.
constexpr uint64_t kMaxConfigBytes = 64 << 20;

struct KnownTemplate {
  std::string_view sha256;
  std::string_view format;
};

constexpr KnownTemplate kKnownTemplates[] = {
    // Qwen3 as first published (April 2025).
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", "qwen3"},
    // Since May 2025: contents that are no strings are empty. The same for those that are.
    {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8", "qwen3"},
    {"3802169b2a02b81e6adb7ab4f64f91ff02db753c8c3a64a01c35192d3a61d8d7", "qwen3-thinking-2507"},
    {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", "qwen3-instruct-2507"},
};

// gpt-oss: its template was revised several times after publication, each time nearer to the
// Harmony library's rendering, which is what the models were trained on and what is rendered here.
// So it is known by the parts of the format that every revision has.
constexpr std::string_view kHarmonyParts[] = {
    "{%- macro render_typescript_type(param_spec, required_params, is_nullable=false) -%}",
    "{%- macro render_tool_namespace(namespace_name, tools) -%}",
    "{%- macro build_system_message() -%}",
    "\"You are ChatGPT, a large language model trained by OpenAI.\"",
    "\"Reasoning: \" + reasoning_effort",
    "# Valid channels: analysis, commentary, final. Channel must be included for every message.",
    "{{- \"<|start|>system<|message|>\" }}",
    "{{- \"<|start|>developer<|message|>\" }}",
    "\"<|start|>assistant<|channel|>analysis<|message|>\"",
    "\"<|start|>assistant<|channel|>final<|message|>\"",
    "\" to=assistant<|channel|>commentary<|message|>\"",
    "\"<|start|>user<|message|>\"",
};

std::string WithPlainLineEnds(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  out.erase(out.find_last_not_of('\n') + 1);
  return out;
}

bool IsHarmony(std::string_view text) {
  return std::all_of(std::begin(kHarmonyParts), std::end(kHarmonyParts),
                     [&](std::string_view part) { return text.find(part) != text.npos; });
}

// The template in a tokenizer_config.json; empty where there is none.
Result<std::string> TemplateOfConfig(std::string_view json, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(const JsonValue config, ParseJsonInOrder(json, where));
  const JsonValue* found = config.Find("chat_template");
  if (found == nullptr || found->kind == JsonValue::Kind::kNull) return std::string();
  if (found->IsString()) return found->text;
  if (found->IsArray()) {
    for (const JsonValue& entry : found->items) {
      const std::string* name = entry.FindString("name");
      const std::string* text = entry.FindString("template");
      if (name != nullptr && text != nullptr && *name == "default") return *text;
    }
  }
  return Error(Code::kUnsupported,
               "{}: \"chat_template\" is neither a string nor a list with a template \"default\"",
               where);
}

}  // namespace

Result<std::string> ReadChatTemplate(const Path& folder) {
  auto file = ReadFileToString(folder / Path("chat_template.jinja"), kMaxTemplateBytes);
  if (file.has_value() || file.error().code() != Code::kNotFound) return file;
  const Path config_path = folder / Path("tokenizer_config.json");
  auto config = ReadFileToString(config_path, kMaxConfigBytes);
  std::string text;
  if (config.has_value()) {
    PICCHIO_ASSIGN_OR_RETURN(text, TemplateOfConfig(*config, config_path.string()));
  } else if (config.error().code() != Code::kNotFound) {
    return config.error();
  }
  if (text.empty()) {
    return Error(Code::kNotFound,
                 "{}: no chat template, expected chat_template.jinja or \"chat_template\" in "
                 "tokenizer_config.json: copy them from where the model was published",
                 folder.string());
  }
  return text;
}

Result<const ChatFormat*> ChatFormatOfTemplate(std::string_view text, std::string_view where) {
  const std::string plain = WithPlainLineEnds(text);
  const std::string sha256 = Sha256Of(plain).Hex();
  for (const KnownTemplate& known : kKnownTemplates) {
    if (known.sha256 == sha256) return ChatFormatNamed(known.format);
  }
  if (IsHarmony(plain)) return ChatFormatNamed("harmony");
  return Error(Code::kUnsupported,
               "{}: a chat template that this version does not know (SHA-256 {}): use the one that "
               "Qwen3, its 2507 Instruct and Thinking models or gpt-oss were published with, or, "
               "where the model was trained on one of their formats, name that",
               where, sha256.substr(0, 16));
}

}  // namespace picchio
