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
