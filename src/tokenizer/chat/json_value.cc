#include "tokenizer/chat/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/json.h"

namespace picchio {
namespace {

// Reads a text that is known to be valid JSON, not too deep.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  JsonValue Value() {
    SkipSpace();
    JsonValue value;
    value.begin = at_;
    switch (text_[at_]) {
      case 'n':
        at_ += 4;
        break;
      case 't':
        value.kind = JsonValue::Kind::kTrue;
        at_ += 4;
        break;
      case 'f':
        value.kind = JsonValue::Kind::kFalse;
        at_ += 5;
        break;
      case '"':
        value.kind = JsonValue::Kind::kString;
        value.text = String();
        break;
      case '[':
        value.kind = JsonValue::Kind::kArray;
        while (NextItem(']')) value.items.push_back(Value());
        break;
      case '{':
        value.kind = JsonValue::Kind::kObject;
        while (NextItem('}')) {
          value.names.push_back(String());
          SkipSpace();
          ++at_;  // The colon.
          value.items.push_back(Value());
        }
        break;
      default:
        value.kind = JsonValue::Kind::kNumber;
        at_ = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
        value.text = text_.substr(value.begin, at_ - value.begin);
        break;
    }
    value.end = at_;
    return value;
  }

 private:
  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  // Steps over the bracket or comma before an item, to the item; false behind the closing bracket.
  bool NextItem(char close) {
    SkipSpace();
    const bool closed = text_[at_++] == close;
    if (closed) return false;
    SkipSpace();
    if (text_[at_] != close) return true;
    ++at_;
    return false;
  }

  std::string String() {
    std::string out;
    ++at_;
    while (text_[at_] != '"') {
      if (text_[at_] != '\\') {
        const size_t stop = text_.find_first_of("\"\\", at_);
        out += text_.substr(at_, stop - at_);
        at_ = stop;
        continue;
      }
      const char escape = text_[at_ + 1];
      at_ += 2;
      if (escape == 'u') {
        char32_t c = Hex();
        if (c >= 0xD800 && c < 0xDC00) {
          at_ += 2;  // The \u of the other half.
          c = 0x10000 + ((c - 0xD800) << 10) + (Hex() - 0xDC00);
        }
        AppendUtf8(c, out);
      } else {
        constexpr std::string_view kNames = "bfnrt";
        constexpr std::string_view kBytes = "\b\f\n\r\t";
        const size_t found = kNames.find(escape);
        out += found == std::string_view::npos ? escape : kBytes[found];
      }
    }
    ++at_;
    return out;
  }

  char32_t Hex() {
    uint32_t value = 0;
    std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    at_ += 4;
    return value;
  }

  static void AppendUtf8(char32_t c, std::string& out) {
    if (c < 0x80) {
      out += static_cast<char>(c);
      return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kLead[more] | c >> 6 * more);
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (c >> 6 * i & 0x3F));
  }

  std::string_view text_;
  size_t at_ = 0;
};

void PrintString(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    constexpr std::string_view kBytes = "\"\\\b\f\n\r\t";
    constexpr std::string_view kNames = "\"\\bfnrt";
    if (const size_t found = kBytes.find(c); found != std::string_view::npos) {
      out += '\\';
      out += kNames[found];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

bool FitsInteger(std::string_view text) {
  const char* const end = text.data() + text.size();
  if (text.front() == '-') {
    int64_t value = 0;
    return std::from_chars(text.data(), end, value).ec == std::errc() && value != 0;
  }
  uint64_t value = 0;
  return std::from_chars(text.data(), end, value).ec == std::errc();
}

// The shortest digits that give the double back, written out where the decimal point is near them.
// Python's repr and Rust's ryu agree on the digits; they part at 0.00001 and in the exponent.
void PrintNumber(const std::string& text, JsonDialect dialect, std::string& out) {
  const bool python = dialect == JsonDialect::kPython;
  if (text.find_first_of(".eE") == std::string::npos && (python || FitsInteger(text))) {
    out += text == "-0" ? "0" : text;
    return;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  char buffer[40];
  const auto written =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(written.ptr - buffer));
  const size_t e = shortest.find('e');
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c == '-') {
      out += '-';
    } else if (c != '.') {
      digits += c;
    }
  }
  int exponent = 0;
  const bool negative = shortest[e + 1] == '-';
  std::from_chars(shortest.data() + e + 2, shortest.data() + shortest.size(), exponent);
  if (negative) exponent = -exponent;

  const int point = exponent + 1;  // So many digits stand before the decimal point.
  const int num_digits = static_cast<int>(digits.size());
  if (point > 16 || point <= (python ? -4 : -5)) {
    out += digits.substr(0, 1);
    if (num_digits > 1) out += "." + digits.substr(1);
    out += python ? fmt::format("e{:+03}", exponent) : fmt::format("e{}", exponent);
  } else if (point <= 0) {
    out += "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  } else if (point >= num_digits) {
    out += digits + std::string(static_cast<size_t>(point - num_digits), '0') + ".0";
  } else {
    out += digits.substr(0, static_cast<size_t>(point)) + ".";
    out += digits.substr(static_cast<size_t>(point));
  }
}

void Print(const JsonValue& value, JsonDialect dialect, std::string& out) {
  const bool python = dialect == JsonDialect::kPython;
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      out += "null";
      break;
    case JsonValue::Kind::kFalse:
      out += "false";
      break;
    case JsonValue::Kind::kTrue:
      out += "true";
      break;
    case JsonValue::Kind::kNumber:
      PrintNumber(value.text, dialect, out);
      break;
    case JsonValue::Kind::kString:
      PrintString(value.text, out);
      break;
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      out += value.IsArray() ? '[' : '{';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += python ? ", " : ",";
        if (value.IsObject()) {
          PrintString(value.names[i], out);
          out += python ? ": " : ":";
        }
        Print(value.items[i], dialect, out);
      }
      out += value.IsArray() ? ']' : '}';
      break;
  }
}

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &items[static_cast<size_t>(found - names.begin())];
}

const std::string* JsonValue::FindString(std::string_view name) const {
  const JsonValue* value = Find(name);
  return value != nullptr && value->IsString() ? &value->text : nullptr;
}

Result<JsonValue> ParseJsonInOrder(std::string_view text, std::string_view where) {
  PICCHIO_RETURN_IF_ERROR(ParseJson(text, where).status());
  return Reader(text).Value();
}

std::string PrintJson(const JsonValue& value, JsonDialect dialect) {
  std::string out;
  Print(value, dialect, out);
  return out;
}

}  // namespace picchio
