// Stop strings: texts at which a generation ends, wherever they begin and however many tokens they
// span.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

// Watches text as it is generated and lets through only what can no longer become part of a stop
// string. The outcome depends on the text alone, not on how it was cut into pieces. One thread at a
// time.
class StopStringMatcher {
 public:
  // kInvalidArgument where a stop string is empty or not valid UTF-8. No strings: all text passes.
  static Result<StopStringMatcher> Create(const std::vector<std::string>& stop_strings);

  // Takes a piece of text (whole characters, as the tokenizer's stream decoder gives them) and
  // returns what may be shown now, whole characters too: everything but the longest suffix that
  // begins a stop string. Once a stop string is complete, returns what stood before it; that string
  // and all later text are dropped. Of several strings, the one whose last byte comes first counts;
  // of those that end together, the longest.
  std::string Append(std::string_view piece);

  // The generation is over: what was held back and became no stop string.
  std::string Finish();

  bool stopped() const { return !matched_.empty(); }
  // The stop string that was found; empty before.
  const std::string& matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    // fallback[n]: the length of the longest proper prefix of `text` that is a suffix of its first
    // n bytes (Knuth, Morris and Pratt).
    std::vector<size_t> fallback;
    size_t matched_bytes = 0;  // The longest prefix of `text` that the text so far ends in.
  };

  StopStringMatcher() = default;
  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // The longest of the prefixes that patterns_ have matched.
  std::string matched_;
};

}  // namespace picchio
