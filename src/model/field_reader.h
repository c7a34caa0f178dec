// Reads the fields of one JSON object strictly: each by its type and range, each at most once, and
// in the end those that nobody asked for are found.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace picchio {

// A getter that fails returns its lower bound or an empty value and keeps the failure; the first
// one is what status() and Finish() return. So a parser reads straight on and asks once at the end.
// A field that is null counts as absent, as it does in Python's configurations. One thread at a
// time.
class FieldReader {
 public:
  // Borrows `object`. `where` begins every message ("model/config.json"). Anything but an object
  // fails.
  FieldReader(const Json& object, std::string where);

  // The value under the first of `names` that is present and not null; null if there is none. Where
  // several names are spellings of one field and two are there, their values must be equal.
  const Json* Find(std::initializer_list<std::string_view> names);
  bool Has(std::string_view name) { return Find({name}) != nullptr; }
  // Whether the field stands there as null.
  bool HasNull(std::string_view name) const;

  // An integer in [min, max]. Without a fallback an absent field fails.
  uint32_t Count(std::initializer_list<std::string_view> names, uint32_t min, uint32_t max);
  uint32_t CountOr(uint32_t fallback, std::initializer_list<std::string_view> names, uint32_t min,
                   uint32_t max);
  // A number in [min, max], integer or not.
  double NumberOr(double fallback, std::string_view name, double min, double max);
  bool FlagOr(bool fallback, std::string_view name);
  std::string TextOr(std::string_view fallback, std::string_view name);
  // An integer or a list of at most 1024 of them, each in [0, limit); empty where the field is
  // absent.
  std::vector<int32_t> Ids(std::string_view name, uint32_t limit);
  // A list of at most `max_size` integers in [0, limit), or an empty one.
  std::vector<uint32_t> Counts(std::string_view name, uint32_t limit, size_t max_size);

  // Marks names as known whatever their values.
  void Ignore(std::span<const std::string_view> names);

  // Keeps the first failure.
  void Fail(Status status);
  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }

  // The first failure; or, where all went well, the refusal of a field that nobody asked for and
  // that is neither null nor false: what is not known might change the mathematics.
  Status Finish();

 private:
  uint32_t ToCount(const Json& value, std::string_view name, uint32_t min, uint32_t max);

  const Json* object_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
  Status status_;
};

}  // namespace picchio
