// Translation of a tokenizer file's regular expression into PCRE2's dialect.
//
// The files are written for Oniguruma; PCRE2 reads most of them alike, but not all: its \s holds
// U+180E, which left Unicode's White_Space in version 6.3; its \h and \v are other things; ^, $ and
// {,n} differ. So the pattern is read here, \s and \S (also within [...]) become the exact set of
// White_Space, \d becomes \p{Nd}, and only what means the same in both dialects passes. A construct
// outside of that is refused by name: a pattern that is nearly right gives tokens that are nearly
// right, and nobody would notice.
//
// A character's category is what the PCRE2 at hand knows (Unicode 14 in 10.42): one that was
// assigned later counts as unassigned, so it does not join the letters beside it.
//
// Understood: literals, |, (...), (?:...), (?i:...), lookahead and lookbehind, (?>...), [...] with
// ranges, ., ? * + {n} {n,} {n,m}, lazy and possessive forms of the first three, \s \S \d \D, \p
// and \P with a general category, \r \n \t \f \v \a \e, \xHH, \x{H...}, \uHHHH, and a backslash
// before punctuation. Within (?i:...) only ASCII: beyond it the two dialects fold case differently.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace picchio {

// `pattern` is valid UTF-8. The result is for PCRE2 with UTF and UCP, and compiles unless it breaks
// a rule that only PCRE2 checks (brackets out of balance, a lookbehind without a bound).
Result<std::string> TranslateRegex(std::string_view pattern);

}  // namespace picchio
