#include "tokenizer/regex_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace picchio {
namespace {

// Unicode's White_Space (PropList.txt, unchanged since 6.3), and all the rest, as the inside of
// [...].
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNonSpaces =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn"};

// One member of a class, or one character of the pattern: a character, or PCRE2 text that stands
// for a set and may stand inside [...].
struct Atom {
  char32_t character = 0;
  std::string set;
  bool is_set() const { return !set.empty(); }
};

bool IsAsciiAlphanumeric(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// A literal in a form that has no second meaning anywhere in a PCRE2 pattern.
std::string Literal(char32_t c) {
  return IsAsciiAlphanumeric(c) ? std::string(1, static_cast<char>(c))
                                : fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(c));
}

// Sequences of letters that full case folding makes equal to a ligature (ss to U+00DF, ff to
// U+FB00): Oniguruma matches those, PCRE2 folds single characters only.
bool FoldsTogether(char32_t a, char32_t b) {
  a |= 0x20;
  b |= 0x20;
  return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (!AtEnd()) PICCHIO_RETURN_IF_ERROR(Next());
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return at_ >= pattern_.size(); }
  bool Follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool Skip(std::string_view text) {
    if (!Follows(text)) return false;
    at_ += text.size();
    return true;
  }
  bool caseless() const { return !groups_.empty() && groups_.back(); }

  Status Refused(std::string_view what) const {
    return Error(Code::kUnsupported,
                 "{} at byte {} of the regular expression is not supported: it may mean something "
                 "else to the engine that the file was written for",
                 what, at_);
  }

  // The character at the position, which moves past it. The text is valid UTF-8 and not at its end.
  char32_t TakeCharacter() {
    const auto lead = static_cast<uint8_t>(pattern_[at_++]);
    if (lead < 0x80) return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    char32_t character = lead & (0x3Fu >> more);
    for (int i = 0; i < more; ++i) {
      character = character << 6 | (static_cast<uint8_t>(pattern_[at_++]) & 0x3Fu);
    }
    return character;
  }

  Status Next() {
    const char c = pattern_[at_];
    const char32_t before = std::exchange(previous_, 0);
    switch (c) {
      case '(':
        return OpenGroup();
      case ')':
        if (groups_.empty()) return Refused("a ')' without its '('");
        groups_.pop_back();
        out_ += c;
        ++at_;
        return Status::Ok();
      case '[':
        return Class();
      case '|':
        out_ += c;
        ++at_;
        return Status::Ok();
      case '.':
        if (caseless()) return Refused("'.' within (?i:...)");
        out_ += c;
        ++at_;
        return Status::Ok();
      case '?':
      case '*':
      case '+':
        out_ += c;
        ++at_;
        if (!AtEnd() && (pattern_[at_] == '?' || pattern_[at_] == '+')) out_ += pattern_[at_++];
        return NothingMoreRepeats();
      case '{':
        return Interval();
      case '^':
      case '$':
        return Refused(fmt::format("'{}'", c));
      default:
        break;
    }
    PICCHIO_ASSIGN_OR_RETURN(const Atom atom, TakeAtom());
    if (atom.is_set()) {
      out_ += fmt::format("[{}]", atom.set);
      return Status::Ok();
    }
    if (caseless() && FoldsTogether(before, atom.character)) {
      return Refused("a sequence of letters within (?i:...) that is also a ligature");
    }
    previous_ = atom.character;
    out_ += Literal(atom.character);
    return Status::Ok();
  }

  Status OpenGroup() {
    // Verbs, comments, names, conditions, inline flags: all begin with one of these two.
    static constexpr std::array<std::string_view, 7> kHeads = {"(?:",  "(?i:", "(?=", "(?!",
                                                               "(?<=", "(?<!", "(?>"};
    for (const std::string_view head : kHeads) {
      if (!Skip(head)) continue;
      groups_.push_back(caseless() || head == "(?i:");
      out_ += head;
      return Status::Ok();
    }
    if (Follows("(?") || Follows("(*")) {
      return Refused(fmt::format("a group that begins with '{}'", ShownFrom(at_)));
    }
    ++at_;
    groups_.push_back(caseless());
    out_ += "(?:";  // Nobody asks for what a group captured.
    return Status::Ok();
  }

  // {n}, {n,} or {n,m}. Elsewhere '{' is a literal in some dialects and an error in others.
  Status Interval() {
    const size_t begin = at_++;
    const auto digits = [this] {
      const size_t from = at_;
      while (!AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '9') ++at_;
      return at_ > from;
    };
    bool good = digits();
    if (good && Skip(",")) digits();
    good = good && Skip("}");
    if (!good) {
      at_ = begin;
      return Refused("a '{' that does not begin {n}, {n,} or {n,m}");
    }
    out_ += pattern_.substr(begin, at_ - begin);
    // PCRE2 reads {n}? as lazy and {n}+ as possessive, Oniguruma as a repetition of the repetition.
    return NothingMoreRepeats();
  }

  Status NothingMoreRepeats() const {
    if (!AtEnd() && std::string_view("?*+{").find(pattern_[at_]) != std::string_view::npos) {
      return Refused("a repetition of a repetition");
    }
    return Status::Ok();
  }

  Status Class() {
    const size_t begin = at_++;
    out_ += '[';
    if (Skip("^")) out_ += '^';
    if (Follows("]")) return Refused("a class that begins with ']'");
    bool first = true;
    while (!Skip("]")) {
      if (AtEnd()) {
        at_ = begin;
        return Refused("a '[' without its ']'");
      }
      PICCHIO_RETURN_IF_ERROR(ClassMember(first));
      first = false;
    }
    out_ += ']';
    return Status::Ok();
  }

  Status ClassMember(bool first) {
    if (Follows("[")) return Refused("a '[' within a class");
    if (Follows("&&")) return Refused("an intersection of classes");
    if (Follows("-") && !first && !Follows("-]")) return Refused("a '-' that makes no range");
    PICCHIO_ASSIGN_OR_RETURN(const Atom low, TakeAtom());
    if (low.is_set()) {
      out_ += low.set;
      return Status::Ok();
    }
    out_ += Literal(low.character);
    if (!Follows("-") || Follows("-]")) return Status::Ok();
    ++at_;
    if (AtEnd() || Follows("[")) return Refused("an unfinished range");
    PICCHIO_ASSIGN_OR_RETURN(const Atom high, TakeAtom());
    if (high.is_set() || high.character < low.character) return Refused("a range out of order");
    out_ += '-';
    out_ += Literal(high.character);
    return Status::Ok();
  }

  // One literal character or one escape.
  Result<Atom> TakeAtom() {
    const size_t begin = at_;
    Atom atom{.character = TakeCharacter(), .set = {}};
    if (atom.character == '\\') {
      if (AtEnd()) return Refused("a '\\' with nothing after it");
      auto escaped = TakeEscape();
      if (!escaped.has_value()) return escaped;
      atom = std::move(*escaped);
    }
    if (caseless() && (atom.is_set() || atom.character >= 0x80)) {
      at_ = begin;
      return Refused(fmt::format("'{}' within (?i:...)", ShownFrom(begin)));
    }
    return atom;
  }

  // What stands after a backslash.
  Result<Atom> TakeEscape() {
    const size_t begin = at_ - 1;
    const char32_t c = TakeCharacter();
    switch (c) {
      case 's':
        return Atom{.set = std::string(kSpaces)};
      case 'S':
        return Atom{.set = std::string(kNonSpaces)};
      case 'd':
        return Atom{.set = "\\p{Nd}"};
      case 'D':
        return Atom{.set = "\\P{Nd}"};
      case 'p':
      case 'P':
        return TakeCategory(c == 'P');
      case 'a':
        return Atom{.character = 0x07, .set = {}};
      case 't':
        return Atom{.character = 0x09, .set = {}};
      case 'n':
        return Atom{.character = 0x0A, .set = {}};
      case 'v':
        return Atom{.character = 0x0B, .set = {}};
      case 'f':
        return Atom{.character = 0x0C, .set = {}};
      case 'r':
        return Atom{.character = 0x0D, .set = {}};
      case 'e':
        return Atom{.character = 0x1B, .set = {}};
      case 'x':
        if (Skip("{")) {
          auto atom = TakeHex(1, 6);
          if (atom.has_value() && !Skip("}")) return Refused("an unfinished \\x{...}");
          return atom;
        }
        return TakeHex(2, 2);
      case 'u':
        return TakeHex(4, 4);
      default:
        break;
    }
    if (IsAsciiAlphanumeric(c) || c >= 0x80) {
      at_ = begin;
      return Refused(fmt::format("'{}'", ShownFrom(begin)));
    }
    return Atom{.character = c, .set = {}};
  }

  Result<Atom> TakeHex(size_t least, size_t most) {
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < most && !AtEnd(); ++digits, ++at_) {
      const auto c = static_cast<uint8_t>(pattern_[at_]);
      const uint32_t lower = c | 0x20u;
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + (lower - 'a' + 10);
      } else {
        break;
      }
    }
    const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (digits < least || value > 0x10FFFF || surrogate) return Refused("a bad character number");
    return Atom{.character = value, .set = {}};
  }

  // {Lu}, {^Lu} after \p or \P. Scripts and binary properties are left out: PCRE2 takes a script's
  // name for its extensions, and which properties exist depends on the library's version.
  Result<Atom> TakeCategory(bool negated) {
    const size_t begin = at_ - 2;
    if (Skip("{")) {
      if (Skip("^")) negated = !negated;
      const size_t close = pattern_.find('}', at_);
      if (close != std::string_view::npos) {
        const std::string_view name = pattern_.substr(at_, close - at_);
        if (std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end()) {
          at_ = close + 1;
          return Atom{.set = fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name)};
        }
      }
    }
    at_ = begin;
    return Refused(fmt::format("the property '{}'", ShownFrom(begin)));
  }

  // A few characters of the pattern for a message, whole ones.
  std::string_view ShownFrom(size_t begin) const {
    size_t end = std::min(begin + 7, pattern_.size());
    while (end < pattern_.size() && (static_cast<uint8_t>(pattern_[end]) & 0xC0) == 0x80) ++end;
    return pattern_.substr(begin, end - begin);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::vector<bool> groups_;  // The open groups: whether case is ignored in them.
  char32_t previous_ = 0;     // The literal just before, 0 if something else stands there.
};

}  // namespace

Result<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace picchio
