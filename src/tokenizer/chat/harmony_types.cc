#include "tokenizer/chat/harmony_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace picchio {
namespace {

// The array `name` of an object; null where there is none.
const JsonValue* FindArray(const JsonValue& object, std::string_view name) {
  const JsonValue* found = object.Find(name);
  return found != nullptr && found->IsArray() ? found : nullptr;
}

bool HasEnum(const JsonValue& schema) {
  const JsonValue* values = FindArray(schema, "enum");
  return values != nullptr && !values->items.empty();
}

// The lines of a text, without their ends and without an empty one at the end.
std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "default: VALUE"; empty where there is none. Strings are quoted but where they are one of an enum
// (of a variant at the top of a schema, `quotes_all`, the library quotes those too).
std::string DefaultOf(const JsonValue& schema, bool quotes_all = false) {
  const JsonValue* value = schema.Find("default");
  if (value == nullptr) return {};
  if (!value->IsString()) return "default: " + PrintJson(*value, JsonDialect::kRust);
  if (!HasEnum(schema)) return fmt::format("default: \"{}\"", value->text);
  return "default: " + (quotes_all ? PrintJson(*value, JsonDialect::kRust) : value->text);
}

// " // COMMENT COMMENT"; empty where both are.
std::string Trailing(const std::string& first, const std::string& second) {
  if (first.empty() && second.empty()) return {};
  return fmt::format(" // {}{}{}", first, first.empty() || second.empty() ? "" : " ", second);
}

std::string TypeOrNull(const JsonValue& schema, std::string_view indent) {
  std::string type = HarmonyType(schema, indent);
  const JsonValue* nullable = schema.Find("nullable");
  if (nullable != nullptr && nullable->kind == JsonValue::Kind::kTrue &&
      type.find("null") == std::string::npos) {
    type += " | null";
  }
  return type;
}

// A schema that is one of several, each on a line of its own.
std::string Variants(const JsonValue& variants, std::string_view indent) {
  std::string out;
  for (const JsonValue& variant : variants.items) {
    out += fmt::format("\n{} | {}", indent, TypeOrNull(variant, fmt::format("{}   ", indent)));
    const std::string* description = variant.FindString("description");
    out += Trailing(description == nullptr ? "" : *description, DefaultOf(variant, true));
  }
  return out;
}

// A property that is one of several: its description and default stand above its name.
std::string PropertyOfVariants(const std::string& name, bool is_required, const JsonValue& schema,
                               const JsonValue& variants, std::string_view indent) {
  std::string out;
  const std::string* description = schema.FindString("description");
  const std::string* first =
      variants.items.empty() ? nullptr : variants.items.front().FindString("description");
  // What the first variant says too is left to it.
  const bool is_above = description != nullptr && !(first != nullptr && *first == *description);
  if (is_above) out += fmt::format("{}// {}\n", indent, *description);
  if (const std::string text = DefaultOf(schema); !text.empty()) {
    out += fmt::format("{}// {}\n", indent, text);
  }
  out += fmt::format("{}{}{}:\n", indent, name, is_required ? "" : "?");
  for (size_t i = 0; i < variants.items.size(); ++i) {
    const JsonValue& variant = variants.items[i];
    out += fmt::format("{} | {}", indent, TypeOrNull(variant, fmt::format("{}   ", indent)));
    const std::string* own = variant.FindString("description");
    const bool says_more =
        own != nullptr && !(i == 0 && is_above) && (description == nullptr || *own != *description);
    out += Trailing(says_more ? *own : "", DefaultOf(variant)) + "\n";
  }
  return out + fmt::format("{},\n", indent);
}

std::string Property(const std::string& name, bool is_required, const JsonValue& schema,
                     std::string_view indent) {
  std::string out;
  const bool has_variants = schema.Find("oneOf") != nullptr;
  if (const std::string* title = schema.FindString("title")) {
    out += fmt::format("{0}// {1}\n{0}//\n", indent, *title);
  }
  if (const std::string* description = schema.FindString("description");
      description != nullptr && !has_variants) {
    out += fmt::format("{}// {}\n", indent, *description);
  }
  if (const JsonValue* examples = FindArray(schema, "examples");
      examples != nullptr && !examples->items.empty()) {
    out += fmt::format("{}// Examples:\n", indent);
    for (const JsonValue& example : examples->items) {
      if (example.IsString()) out += fmt::format("{}// - \"{}\"\n", indent, example.text);
    }
  }
  if (const JsonValue* variants = FindArray(schema, "oneOf")) {
    return out + PropertyOfVariants(name, is_required, schema, *variants, indent);
  }
  out += fmt::format("{}{}{}: {},", indent, name, is_required ? "" : "?",
                     TypeOrNull(schema, fmt::format("{}    ", indent)));
  if (!has_variants) out += Trailing(DefaultOf(schema), {});
  return out + "\n";
}

std::string ObjectType(const JsonValue& schema, std::string_view indent) {
  std::string out;
  if (const std::string* description = schema.FindString("description")) {
    out += fmt::format("{}// {}\n", indent, *description);
  }
  out += "{\n";
  const JsonValue* properties = schema.Find("properties");
  const JsonValue* required = FindArray(schema, "required");
  if (properties != nullptr && properties->IsObject()) {
    for (size_t i = 0; i < properties->items.size(); ++i) {
      const std::string& name = properties->names[i];
      const bool is_required =
          required != nullptr &&
          std::any_of(required->items.begin(), required->items.end(),
                      [&](const JsonValue& item) { return item.IsString() && item.text == name; });
      out += Property(name, is_required, properties->items[i], indent);
    }
  }
  return out + fmt::format("{}}}", indent);
}

// The alternatives that an array of names of types allows; empty where it has none.
std::string TypeOfNames(const JsonValue& names) {
  std::string out;
  for (const JsonValue& name : names.items) {
    if (!name.IsString()) continue;
    out += fmt::format("{}{}", out.empty() ? "" : " | ",
                       name.text == "integer" ? "number" : name.text);
  }
  return out;
}

std::string StringType(const JsonValue& schema) {
  std::string out;
  if (const JsonValue* values = FindArray(schema, "enum")) {
    for (const JsonValue& value : values->items) {
      if (value.IsString()) out += fmt::format("{}\"{}\"", out.empty() ? "" : " | ", value.text);
    }
  }
  return out.empty() ? "string" : out;
}

void AppendNamespace(const HarmonyNamespace& space, std::string& out) {
  out += fmt::format("## {}\n", space.name);
  const bool has_tools = !space.tools.empty();
  for (const std::string_view line : LinesOf(space.description)) {
    out += fmt::format("\n{}{}", has_tools ? "// " : "", line);
  }
  if (!has_tools) return;
  out += fmt::format("\nnamespace {} {{\n", space.name);
  for (const ChatTool& tool : space.tools) {
    for (const std::string_view line : LinesOf(tool.description)) {
      out += fmt::format("\n// {}", line);
    }
    const JsonValue* parameters = tool.parameters();
    out += parameters == nullptr ? fmt::format("\ntype {} = () => any;\n", tool.name)
                                 : fmt::format("\ntype {} = (_: {}) => any;\n", tool.name,
                                               HarmonyType(*parameters, ""));
  }
  out += fmt::format("\n}} // namespace {}", space.name);
}

}  // namespace

std::string HarmonyType(const JsonValue& schema, std::string_view indent) {
  if (const JsonValue* variants = FindArray(schema, "oneOf")) return Variants(*variants, indent);
  if (const JsonValue* names = FindArray(schema, "type")) {
    if (std::string type = TypeOfNames(*names); !type.empty()) return type;
  }
  const std::string* type = schema.FindString("type");
  if (type == nullptr) return "any";
  if (*type == "object") return ObjectType(schema, indent);
  if (*type == "string") return StringType(schema);
  if (*type == "number" || *type == "integer") return "number";
  if (*type == "boolean") return "boolean";
  if (*type == "array") {
    const JsonValue* items = schema.Find("items");
    return items == nullptr ? "Array<any>" : HarmonyType(*items, indent) + "[]";
  }
  return "any";
}

std::string HarmonyToolsSection(const std::vector<HarmonyNamespace>& namespaces) {
  std::string out = "# Tools";
  for (const HarmonyNamespace& space : namespaces) {
    out += "\n\n";
    AppendNamespace(space, out);
  }
  return out;
}

}  // namespace picchio
