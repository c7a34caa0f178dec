// Checks of numbers on the command line, each of which returns what is wrong with the
// word, or nothing. Stricter than the parser's own: "nan" and numbers too large for their type are
// no numbers, and "5x" is not 5.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace picchio {

using FlagCheck = std::function<std::string(const std::string&)>;

// Both ends included. `or_word` is taken beside numbers ("auto"); empty: nothing is.
FlagCheck WholeNumberFrom(int64_t min, int64_t max, std::string or_word = "");
FlagCheck NumberFrom(double min, double max, std::string or_word = "");
// -1, or a whole number below 2^64.
FlagCheck Seed();
// A file's name; what was given as "" was most likely an unset variable.
FlagCheck NotEmpty();

// The words between commas, of a flag that takes a list; and each of them checked.
std::vector<std::string> WordsOf(const std::string& list);
FlagCheck EachOf(FlagCheck check);

}  // namespace picchio
