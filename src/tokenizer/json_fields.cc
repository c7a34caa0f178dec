#include "tokenizer/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace picchio {

Result<JsonFields> JsonFields::Of(const Json& object, std::string where) {
  if (!object.is_object()) {
    return Error(Code::kCorrupt, "{}: {} where an object is expected", where, JsonTypeName(object));
  }
  return JsonFields(object, std::move(where));
}

const Json* JsonFields::Optional(std::string_view name) {
  taken_.emplace_back(name);
  const auto field = object_->find(taken_.back());
  return field == object_->end() || field->is_null() ? nullptr : &*field;
}

Result<const Json*> JsonFields::Required(std::string_view name) {
  const Json* field = Optional(name);
  if (field == nullptr) return Error(Code::kCorrupt, "{}: no \"{}\"", where_, name);
  return field;
}

Result<std::string> JsonFields::String(std::string_view name) {
  PICCHIO_ASSIGN_OR_RETURN(const Json* field, Required(name));
  if (!field->is_string()) return WrongType(name, *field, "a string");
  return field->get<std::string>();
}

Result<int64_t> JsonFields::Integer(std::string_view name) {
  PICCHIO_ASSIGN_OR_RETURN(const Json* field, Required(name));
  const std::optional<int64_t> number = WholeNumber(*field);
  if (!number) return WrongType(name, *field, "an integer");
  return *number;
}

Result<bool> JsonFields::Bool(std::string_view name, bool fallback) {
  const Json* field = Optional(name);
  if (field == nullptr) return fallback;
  if (!field->is_boolean()) return WrongType(name, *field, "true or false");
  return field->get<bool>();
}

Result<const Json*> JsonFields::Array(std::string_view name) {
  PICCHIO_ASSIGN_OR_RETURN(const Json* field, Required(name));
  if (!field->is_array()) return WrongType(name, *field, "an array");
  return field;
}

Result<JsonFields> JsonFields::Object(std::string_view name) {
  PICCHIO_ASSIGN_OR_RETURN(const Json* field, Required(name));
  return Of(*field, fmt::format("{}.{}", where_, name));
}

Status JsonFields::Finish() const {
  for (const auto& [name, value] : object_->items()) {
    if (std::find(taken_.begin(), taken_.end(), name) == taken_.end()) {
      return Error(Code::kUnsupported, "{}: the field {} is not known to this version", where_,
                   Quoted(name));
    }
  }
  return Status::Ok();
}

Status JsonFields::Unsupported(std::string_view what) const {
  return Error(Code::kUnsupported, "{}: {} not supported", where_, what);
}

Status JsonFields::WrongType(std::string_view name, const Json& value,
                             std::string_view expected) const {
  return Error(Code::kCorrupt, "{}: \"{}\" is {} where {} is expected", where_, name,
               JsonTypeName(value), expected);
}

}  // namespace picchio
