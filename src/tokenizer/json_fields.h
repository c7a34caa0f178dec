// Takes the fields of a JSON object one by one, so that none is overlooked: what nobody took is
// refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace picchio {

// Borrows the object.
class JsonFields {
 public:
  // `where` is what messages call the object ("tokenizer.json: model").
  static Result<JsonFields> Of(const Json& object, std::string where);

  const std::string& where() const { return where_; }

  // The field; null where it is missing or is JSON's null.
  const Json* Optional(std::string_view name);
  // The field; an error where it is missing or null.
  Result<const Json*> Required(std::string_view name);

  Result<std::string> String(std::string_view name);
  Result<int64_t> Integer(std::string_view name);
  // `fallback` where the field is missing or null.
  Result<bool> Bool(std::string_view name, bool fallback);
  Result<const Json*> Array(std::string_view name);
  Result<JsonFields> Object(std::string_view name);

  // Takes a field whose value changes nothing here.
  void Ignore(std::string_view name) { Optional(name); }

  // Refuses every field that was not taken.
  Status Finish() const;

  // "WHERE: WHAT not supported".
  Status Unsupported(std::string_view what) const;

 private:
  JsonFields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  Status WrongType(std::string_view name, const Json& value, std::string_view expected) const;

  const Json* object_;
  std::string where_;
  std::vector<std::string> taken_;
};

}  // namespace picchio
