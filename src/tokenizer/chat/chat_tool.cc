#include "tokenizer/chat/chat_tool.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace picchio {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

Result<ChatTool> ToolOf(JsonValue definition, std::string_view where) {
  if (!definition.IsObject()) {
    return Error(Code::kInvalidArgument, "{}: no object, expected {{\"type\": \"function\", ...}}",
                 where);
  }
  const std::string* type = definition.FindString("type");
  if (type == nullptr || *type != "function") {
    return Error(Code::kInvalidArgument, "{}: \"type\" is {}, expected \"function\"", where,
                 type == nullptr ? "no string" : Quoted(*type));
  }
  const JsonValue* function = definition.Find("function");
  if (function == nullptr || !function->IsObject()) {
    return Error(Code::kInvalidArgument, "{}: no object \"function\"", where);
  }
  const std::string* name = function->FindString("name");
  if (name == nullptr || !IsFunctionName(*name)) {
    return Error(Code::kInvalidArgument,
                 "{}: \"name\" is {}, expected 1 to {} letters, digits, '_', '-' or '.'", where,
                 name == nullptr ? "no string" : Quoted(*name), kMaxNameBytes);
  }
  ChatTool tool;
  tool.name = *name;
  const JsonValue* description = function->Find("description");
  if (description != nullptr && description->kind != JsonValue::Kind::kNull) {
    if (!description->IsString()) {
      return Error(Code::kInvalidArgument, "{}: the \"description\" of {} is no string", where,
                   tool.name);
    }
    tool.description = description->text;
  }
  const JsonValue* parameters = function->Find("parameters");
  if (parameters != nullptr && parameters->kind != JsonValue::Kind::kNull &&
      !parameters->IsObject()) {
    return Error(Code::kInvalidArgument, "{}: the \"parameters\" of {} are no object", where,
                 tool.name);
  }
  tool.definition = std::move(definition);
  return tool;
}

}  // namespace

const JsonValue* ChatTool::parameters() const {
  const JsonValue* function = definition.Find("function");
  const JsonValue* found = function == nullptr ? nullptr : function->Find("parameters");
  return found != nullptr && found->IsObject() ? found : nullptr;
}

Result<std::vector<ChatTool>> ParseChatTools(std::string_view json, std::string_view where) {
  PICCHIO_ASSIGN_OR_RETURN(JsonValue array, ParseJsonInOrder(json, where));
  if (!array.IsArray()) return Error(Code::kInvalidArgument, "{}: no array of tools", where);
  std::vector<ChatTool> tools;
  for (JsonValue& item : array.items) {
    const std::string place = fmt::format("{}[{}]", where, tools.size());
    PICCHIO_ASSIGN_OR_RETURN(ChatTool tool, ToolOf(std::move(item), place));
    const bool taken = std::any_of(tools.begin(), tools.end(),
                                   [&](const ChatTool& other) { return other.name == tool.name; });
    if (taken) {
      return Error(Code::kInvalidArgument, "{}: a second function {}", place, tool.name);
    }
    tools.push_back(std::move(tool));
  }
  return tools;
}

}  // namespace picchio
