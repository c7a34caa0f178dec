// Function definitions as TypeScript-like types, as the Harmony format shows them to a model.
//
// The rules are those of the openai/harmony library (src/encoding.rs, json_schema_to_typescript and
// template_tools_section), including where a comment stands and how a default is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_tool.h"
#include "tokenizer/chat/json_value.h"

namespace picchio {

struct HarmonyNamespace {
  std::string name;         // "functions", "browser".
  std::string description;  // A comment before the types; the whole text where there are none.
  std::vector<ChatTool> tools;
};

// The type of a JSON schema, over several lines where it has properties; "any" where it says
// nothing that is known. `indent` stands before each line but the first.
std::string HarmonyType(const JsonValue& schema, std::string_view indent);

// "# Tools" and the namespaces in the order given.
std::string HarmonyToolsSection(const std::vector<HarmonyNamespace>& namespaces);

}  // namespace picchio
