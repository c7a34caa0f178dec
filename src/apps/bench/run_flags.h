// A set of flags for `picchio run` in one string, as a shell would read it: what `picchio bench
// run` compares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct RunFlagSet {
  std::string text{};                      // As given.
  std::vector<std::string> environment{};  // "NAME=VALUE" each.
  std::vector<std::string> arguments{};

  // Whether the arguments have one of these flags, as "-n", "-n4", "--predict" or "--predict=4".
  bool Has(const std::vector<std::string_view>& names) const;
};

// Splits at white space; '...' is taken as it stands, "..." and words know \ before a character.
// Words NAME=VALUE before all others are assignments to the environment. No shell expands anything,
// so what one would expand ($, `, a ~ that begins a word) or act on (| & ; < > and brackets) is
// refused where it is not quoted; $ and ` inside "..." too. So are a quote that does not end, and
// the flags that the benchmark owns: the model, the report, the outputs.
Result<RunFlagSet> ParseRunFlags(std::string_view text);

// Both, those of `common` first: of a flag given in both, the later one counts.
RunFlagSet Joined(const RunFlagSet& common, const RunFlagSet& own);

// The store that these flags name with --flat or FLAT; empty where they do not.
Path StoreOf(const RunFlagSet& flags);

}  // namespace picchio
