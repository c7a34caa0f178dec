#include "base/json.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/foreign_content.h"
#include "base/printable.h"

namespace picchio {
namespace {

// Builds the value from the parser's events. The library's own builder keeps the last of two equal
// keys, and this project wants to hear of them.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view where, int max_depth) : where_(where), max_depth_(max_depth) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    const auto [slot, inserted] = open_.back()->emplace(name, nullptr);
    if (!inserted) {
      status_ =
          Error(Code::kCorrupt, "{}: the key {} stands twice in one object", where_, Quoted(name));
      return false;
    }
    value_of_key_ = &*slot;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status_ = Error(Code::kCorrupt, "{}: not valid JSON at byte {}", where_, position);
    return false;
  }

  Status status() const { return status_; }
  Json Take() { return std::move(root_); }

 private:
  template <typename Value>
  bool Add(Value&& value) {
    Place() = std::forward<Value>(value);
    return true;
  }

  bool Open(Json&& empty) {
    if (open_.size() >= static_cast<size_t>(max_depth_)) {
      status_ = Error(Code::kCorrupt, "{}: JSON nested deeper than {} levels", where_, max_depth_);
      return false;
    }
    Json& place = Place();
    place = std::move(empty);
    open_.push_back(&place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  // Where the next value belongs. Pointers into open containers stay valid: only the innermost one
  // grows, and objects are node-based.
  Json& Place() {
    if (open_.empty()) return root_;
    Json& parent = *open_.back();
    if (parent.is_object()) return *value_of_key_;
    parent.push_back(nullptr);
    return parent.back();
  }

  std::string_view where_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  Json* value_of_key_ = nullptr;
  Status status_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view where, int max_depth) {
  PICCHIO_RETURN_IF_ERROR(CheckNotForeign(text.substr(0, 64), where));
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Error(Code::kCorrupt,
                 "{}: begins with a byte-order mark, which JSON must not have: save it as UTF-8 "
                 "without one",
                 where);
  }
  // The parser takes a NUL for the end of the text and would not see what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Error(Code::kCorrupt, "{}: not valid JSON at byte {} (a NUL)", where, nul);
  }
  TreeBuilder builder(where, max_depth);
  if (Json::sax_parse(text, &builder)) return builder.Take();
  if (builder.status().ok()) return Error(Code::kCorrupt, "{}: not valid JSON", where);
  return builder.status();
}

std::optional<int64_t> WholeNumber(const Json& value) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMax}) return kMax;
  return value.get<int64_t>();
}

std::string_view JsonTypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::object:
      return "an object";
    default:
      return "nothing";
  }
}

}  // namespace picchio
