#include "format/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace picchio {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxQuotedBytes)) {
    if (IsControl(c) || c == '"' || c == '\\') {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += text.size() > kMaxQuotedBytes ? "...\"" : "\"";
  return out;
}

bool HasControlBytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), IsControl);
}

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string_view::npos && !HasControlBytes(name);
}

}  // namespace picchio
