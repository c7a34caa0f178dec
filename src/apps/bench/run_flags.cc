#include "apps/bench/run_flags.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/printable.h"

namespace picchio {
namespace {

constexpr std::string_view kBlank = " \t\n\r";
constexpr std::string_view kShellOnly = "$`|&;<>()";

struct OwnedFlag {
  std::string_view name;
  std::string_view why;
};
constexpr OwnedFlag kOwnedFlags[] = {
    {"-m", "the model is the same for all runs"},
    {"--model", "the model is the same for all runs"},
    {"--json", "the benchmark reads that report itself"},
    {"--ids-out", "the benchmark compares the ids itself"},
    {"--logits-out", "writing logits would be measured too"},
    {"-h", "picchio run --help shows it"},
    {"--help", "picchio run --help shows it"},
};

// Whether an argument is this flag, with or without a value in the same word.
bool IsFlag(std::string_view argument, std::string_view name) {
  if (!argument.starts_with(name)) return false;
  const std::string_view rest = argument.substr(name.size());
  return rest.empty() || (name.starts_with("--") ? rest.front() == '=' : true);
}

Status Wrong(std::string_view text, std::string_view what) {
  return Error(Code::kInvalidArgument, "the flags {}: {}", Quoted(text), what);
}

Result<std::vector<std::string>> SplitWords(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    return Wrong(text, "there is a zero byte in them");
  }
  std::vector<std::string> words;
  std::optional<std::string> word;  // A quoted word may be empty.
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\'') {
      if (c == quote) {
        quote = '\0';
      } else {
        *word += c;
      }
      continue;
    }
    if (quote == '\0' && kBlank.find(c) != std::string_view::npos) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    const bool begins = !word.has_value();
    if (begins) word.emplace();
    if (c == '\\') {
      if (i + 1 == text.size()) return Wrong(text, "the last character is a \\ before nothing");
      const char next = text[++i];
      // Inside quotes it stands for itself before all but these.
      if (quote == '"' && std::string_view("\"\\$`").find(next) == std::string_view::npos) {
        *word += c;
      }
      *word += next;
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if ((quote == '\0' && kShellOnly.find(c) != std::string_view::npos) || c == '$' ||
               c == '`' || (c == '~' && begins)) {
      return Wrong(text, fmt::format("no shell reads {}: put what holds it in single quotes, or "
                                     "give what it would become",
                                     Quoted(std::string_view(&c, 1))));
    } else {
      *word += c;
    }
  }
  if (quote != '\0') {
    return Wrong(text, fmt::format("the quote {} does not end", std::string_view(&quote, 1)));
  }
  if (word) words.push_back(*std::move(word));
  return words;
}

bool IsAssignment(std::string_view word) {
  const size_t end = word.find('=');
  if (end == std::string_view::npos || end == 0) return false;
  if (word[0] >= '0' && word[0] <= '9') return false;
  return std::ranges::all_of(word.substr(0, end), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

bool RunFlagSet::Has(const std::vector<std::string_view>& names) const {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return std::ranges::any_of(names,
                               [&](std::string_view name) { return IsFlag(argument, name); });
  });
}

Result<RunFlagSet> ParseRunFlags(std::string_view text) {
  RunFlagSet flags{.text = std::string(text)};
  PICCHIO_ASSIGN_OR_RETURN(std::vector<std::string> words, SplitWords(text));
  for (std::string& word : words) {
    if (flags.arguments.empty() && IsAssignment(word)) {
      flags.environment.push_back(std::move(word));
    } else {
      flags.arguments.push_back(std::move(word));
    }
  }
  for (const OwnedFlag& owned : kOwnedFlags) {
    if (flags.Has({owned.name})) {
      return Wrong(text, fmt::format("{} does not belong here: {}", owned.name, owned.why));
    }
  }
  return flags;
}

RunFlagSet Joined(const RunFlagSet& common, const RunFlagSet& own) {
  RunFlagSet both = common;
  both.text += common.text.empty() || own.text.empty() ? own.text : " " + own.text;
  both.environment.insert(both.environment.end(), own.environment.begin(), own.environment.end());
  both.arguments.insert(both.arguments.end(), own.arguments.begin(), own.arguments.end());
  return both;
}

Path StoreOf(const RunFlagSet& flags) {
  std::string store;
  for (const std::string& assignment : flags.environment) {
    if (assignment.starts_with("FLAT=")) store = assignment.substr(5);
  }
  for (size_t i = 0; i < flags.arguments.size(); ++i) {
    const std::string& argument = flags.arguments[i];
    if (argument.starts_with("--flat=")) store = argument.substr(7);
    if (argument == "--flat" && i + 1 < flags.arguments.size()) store = flags.arguments[i + 1];
  }
  return store == "0" ? Path() : Path(store);
}

}  // namespace picchio
