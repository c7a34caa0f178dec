#include "apps/commands/flag_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/printable.h"

namespace picchio {
namespace {

// The whole word as a number, or nothing.
template <typename Number>
std::optional<Number> Parse(std::string_view word) {
  if (word.starts_with("+") && !word.starts_with("+-")) word.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

FlagCheck WholeNumberFrom(int64_t min, int64_t max, std::string or_word) {
  return [min, max, or_word = std::move(or_word)](const std::string& word) -> std::string {
    if (!or_word.empty() && word == or_word) return {};
    const std::optional<int64_t> value = Parse<int64_t>(word);
    if (value && *value >= min && *value <= max) return {};
    return fmt::format("{} is not a whole number from {} to {}{}", Quoted(word), min, max,
                       or_word.empty() ? "" : ", nor " + or_word);
  };
}

FlagCheck NumberFrom(double min, double max, std::string or_word) {
  return [min, max, or_word = std::move(or_word)](const std::string& word) -> std::string {
    if (!or_word.empty() && word == or_word) return {};
    const std::optional<double> value = Parse<double>(word);
    if (value && *value >= min && *value <= max) return {};  // NaN is neither.
    return fmt::format("{} is not a number from {} to {}{}", Quoted(word), min, max,
                       or_word.empty() ? "" : ", nor " + or_word);
  };
}

FlagCheck Seed() {
  return [](const std::string& word) -> std::string {
    if (word == "-1" || Parse<uint64_t>(word)) return {};
    return fmt::format("{} is neither -1 (choose one) nor a whole number below 2^64", Quoted(word));
  };
}

FlagCheck NotEmpty() {
  return [](const std::string& word) -> std::string {
    return word.empty() ? "the name of the file is empty" : "";
  };
}

std::vector<std::string> WordsOf(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

FlagCheck EachOf(FlagCheck check) {
  return [check = std::move(check)](const std::string& list) {
    for (const std::string& word : WordsOf(list)) {
      if (std::string wrong = check(word); !wrong.empty()) return wrong;
    }
    return list.empty() ? check(list) : std::string();
  };
}

}  // namespace picchio
