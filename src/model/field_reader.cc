#include "model/field_reader.h"

#include <cmath>
#include <utility>

#include "base/printable.h"

namespace picchio {
namespace {

// A value as a message shows it: short, whatever was sent.
std::string Shown(const Json& value) {
  if (value.is_array() || value.is_object()) return std::string(JsonTypeName(value));
  return value.is_string() ? Quoted(value.get_ref<const std::string&>()) : value.dump();
}

}  // namespace

FieldReader::FieldReader(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    Fail(Error(Code::kCorrupt, "{}: found {}, expected an object", where_, JsonTypeName(object)));
  }
}

const Json* FieldReader::Find(std::initializer_list<std::string_view> names) {
  if (!object_->is_object()) return nullptr;
  const Json* found = nullptr;
  std::string_view found_name;
  for (const std::string_view name : names) {
    known_.emplace(name);
    const auto field = object_->find(name);
    if (field == object_->end() || field->is_null()) continue;
    if (found != nullptr && *found != *field) {
      Fail(Error(Code::kCorrupt, "{}: {} is {} but {} is {}; they are two names of one field",
                 where_, found_name, Shown(*found), name, Shown(*field)));
    }
    if (found == nullptr) {
      found = &*field;
      found_name = name;
    }
  }
  return found;
}

bool FieldReader::HasNull(std::string_view name) const {
  if (!object_->is_object()) return false;
  const auto field = object_->find(name);
  return field != object_->end() && field->is_null();
}

uint32_t FieldReader::ToCount(const Json& value, std::string_view name, uint32_t min,
                              uint32_t max) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number >= min && number <= max) return static_cast<uint32_t>(number);
  }
  Fail(Error(Code::kCorrupt, "{}: {} is {}, expected an integer from {} to {}", where_, name,
             Shown(value), min, max));
  return min;
}

uint32_t FieldReader::Count(std::initializer_list<std::string_view> names, uint32_t min,
                            uint32_t max) {
  if (const Json* value = Find(names)) return ToCount(*value, *names.begin(), min, max);
  Fail(Error(Code::kCorrupt, "{}: the field {} is missing", where_, *names.begin()));
  return min;
}

uint32_t FieldReader::CountOr(uint32_t fallback, std::initializer_list<std::string_view> names,
                              uint32_t min, uint32_t max) {
  const Json* value = Find(names);
  return value == nullptr ? fallback : ToCount(*value, *names.begin(), min, max);
}

double FieldReader::NumberOr(double fallback, std::string_view name, double min, double max) {
  const Json* value = Find({name});
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (std::isfinite(number) && number >= min && number <= max) return number;
  }
  Fail(Error(Code::kCorrupt, "{}: {} is {}, expected a number from {} to {}", where_, name,
             Shown(*value), min, max));
  return min;
}

bool FieldReader::FlagOr(bool fallback, std::string_view name) {
  const Json* value = Find({name});
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(Error(Code::kCorrupt, "{}: {} is {}, expected true or false", where_, name, Shown(*value)));
  return fallback;
}

std::string FieldReader::TextOr(std::string_view fallback, std::string_view name) {
  const Json* value = Find({name});
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  Fail(Error(Code::kCorrupt, "{}: {} is {}, expected a string", where_, name, Shown(*value)));
  return std::string(fallback);
}

std::vector<int32_t> FieldReader::Ids(std::string_view name, uint32_t limit) {
  const Json* value = Find({name});
  if (value == nullptr) return {};
  PICCHIO_CHECK(limit > 0);
  std::vector<int32_t> ids;
  if (!value->is_array()) {
    ids.push_back(static_cast<int32_t>(ToCount(*value, name, 0, limit - 1)));
    return ids;
  }
  for (const uint32_t id : Counts(name, limit, 1024)) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

std::vector<uint32_t> FieldReader::Counts(std::string_view name, uint32_t limit, size_t max_size) {
  const Json* value = Find({name});
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() > max_size) {
    Fail(Error(Code::kCorrupt, "{}: {} is {} ({} elements), expected a list of at most {} integers",
               where_, name, JsonTypeName(*value), value->size(), max_size));
    return {};
  }
  std::vector<uint32_t> counts;
  for (const Json& element : *value) counts.push_back(ToCount(element, name, 0, limit - 1));
  return counts;
}

void FieldReader::Ignore(std::span<const std::string_view> names) {
  known_.insert(names.begin(), names.end());
}

void FieldReader::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Status FieldReader::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : object_->items()) {
    if (known_.contains(name) || value.is_null() || value == false) continue;
    return Error(Code::kUnsupported,
                 "{}: the field {} ({}) is not known to this version and might change the "
                 "mathematics; if it does not, remove it",
                 where_, Quoted(name), Shown(value));
  }
  return Status::Ok();
}

}  // namespace picchio
