#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"

namespace picchio {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string Quoted(std::string_view text) {
  std::string_view shown = text.substr(0, kMaxQuotedBytes);
  if (shown.size() < text.size()) shown.remove_suffix(IncompleteUtf8Suffix(shown));
  std::string out = "\"";
  for (const char c : shown) {
    if (IsControl(c) || c == '"' || c == '\\') {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += shown.size() < text.size() ? "...\"" : "\"";
  return out;
}

std::string QuotedBytes(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const size_t valid = ValidUtf8Prefix(bytes);
    for (const char c : bytes.substr(0, valid)) {
      if (IsControl(c)) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    // One byte of what is no UTF-8; what follows it may be.
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    bytes.remove_prefix(1);
  }
  return out + '"';
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

bool HasControlBytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), IsControl);
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string_view::npos && !HasControlBytes(name);
}

}  // namespace picchio
