// JSON as chat templates handle it: members keep their order, and a value prints as the templates'
// own languages print it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text;                // kNumber: as it was written. kString: its characters.
  std::vector<std::string> names;  // kObject: of the members, in their order.
  std::vector<JsonValue> items;    // kArray: the elements. kObject: the members' values.
  size_t begin = 0;                // The value is [begin, end) of the text it was read from.
  size_t end = 0;

  bool IsObject() const { return kind == Kind::kObject; }
  bool IsArray() const { return kind == Kind::kArray; }
  bool IsString() const { return kind == Kind::kString; }
  // The member's value; null where this is no object or has no such member.
  const JsonValue* Find(std::string_view name) const;
  // The characters of a member that is a string; null where there is none.
  const std::string* FindString(std::string_view name) const;
};

// Reads one value as strictly as ParseJson of base/json.h does, whose messages it gives.
Result<JsonValue> ParseJsonInOrder(std::string_view text, std::string_view where);

// Who prints: the two differ in spaces and in numbers with a fraction or an exponent.
enum class JsonDialect : uint8_t {
  kPython,  // json.dumps(value, ensure_ascii=False): what a template's `tojson` gives.
  kRust,    // serde_json's Display: what the Harmony library writes behind "default:".
};

std::string PrintJson(const JsonValue& value, JsonDialect dialect);

}  // namespace picchio
