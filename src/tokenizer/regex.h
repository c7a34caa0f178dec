// Regular expressions over UTF-8, in the dialect of regex_syntax.h, by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace picchio {

// A compiled expression. Move-only; may be used by any number of threads at once.
class Regex {
 public:
  // Refuses what TranslateRegex refuses, what PCRE2 cannot compile, and an expression that can
  // match the empty string (as a splitter it would be ambiguous).
  static Result<Regex> Compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Calls `on_match(begin, end)` for the successive matches in `text` (valid UTF-8), leftmost
  // first, not overlapping. Fails where the engine gives up: an expression that backtracks without
  // end is stopped after a number of steps that grows with the text.
  Status ForEachMatch(std::string_view text, FunctionRef<void(size_t, size_t)> on_match) const;

  // Whether the expression runs as machine code. Where the library or the system does not allow
  // that, it is interpreted: some ten times slower, the same matches.
  bool is_compiled_to_machine_code() const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace picchio
