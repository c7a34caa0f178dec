#include "format/manifest_text.h"

#include <charconv>

namespace picchio {
namespace {

constexpr size_t kMaxShapeLength = 64;

}  // namespace

Status ManifestReader::StringField(std::string_view name, std::string& value) {
  PICCHIO_RETURN_IF_ERROR(Field(name));
  return String(value);
}

Status ManifestReader::NumberField(std::string_view name, uint64_t& value) {
  PICCHIO_RETURN_IF_ERROR(Field(name));
  return Number(value);
}

Status ManifestReader::HashField(std::string_view name, Sha256Digest& value) {
  std::string hex;
  PICCHIO_RETURN_IF_ERROR(StringField(name, hex));
  auto digest = Sha256Digest::FromHex(hex);
  if (!digest.has_value()) return Expected("64 digits before this");
  value = *digest;
  return Status::Ok();
}

Status ManifestReader::ShapeField(std::string_view name, std::vector<uint64_t>& value) {
  PICCHIO_RETURN_IF_ERROR(Field(name));
  if (!Take("[")) return Expected("'['");
  while (!Take("]")) {
    if (!value.empty() && !Take(",")) return Expected("','");
    if (value.size() == kMaxShapeLength) return Expected("at most 64 dimensions");
    PICCHIO_RETURN_IF_ERROR(Number(value.emplace_back()));
  }
  return Status::Ok();
}

Status ManifestReader::BeginList(std::string_view name) {
  PICCHIO_RETURN_IF_ERROR(Field(name));
  return Take("[\n") ? Status::Ok() : Expected("a list");
}

bool ManifestReader::EndOfList() { return Take("],\n"); }

Status ManifestReader::EndEntry() {
  return Take("},\n") || Take("}\n") ? Status::Ok() : Expected("the end of the entry");
}

// Fields of an entry follow "{" or ", ", the others a line's end; which is right is for the
// comparison with the canonical text to say.
Status ManifestReader::Field(std::string_view name) {
  (void)(Take("{") || Take(", ") || Take(",\n"));
  return Take("\"") && Take(name) && Take("\": ") ? Status::Ok()
                                                  : Expected(fmt::format("the field \"{}\"", name));
}

Status ManifestReader::String(std::string& value) {
  if (!Take("\"")) return Expected("a string");
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\') ++at_;
    if (at_ == text_.size()) break;
    value += text_[at_++];
  }
  return Take("\"") ? Status::Ok() : Expected("the end of the string");
}

Status ManifestReader::Number(uint64_t& value) {
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) return Expected("a whole number below 2^64");
  at_ += static_cast<size_t>(end - begin);
  return Status::Ok();
}

bool ManifestReader::Take(std::string_view token) {
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

Status ManifestReader::Expected(std::string_view what) const {
  return Error(Code::kCorrupt, "expected {} at byte {} of the body", what, at_);
}

}  // namespace picchio
