// How often a model's experts were used, kept from one run to the next: the next one loads the most
// used first. docs/caching.md describes the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "experts/cache_directory.h"

namespace picchio {

// Which model the counters are of, and what its records can be.
struct CountedModel {
  std::string id;  // The manifest's, 32 hexadecimal digits.
  uint32_t num_layers = 0;
  uint32_t num_experts = 0;
};

inline constexpr std::string_view kUseCountersName = "expert-uses.txt";

// The text: records with a use to their name, rounded to thousandths, in the order given.
std::string SerializeUseCounters(std::span<const CacheDirectory::Uses> uses,
                                 const CountedModel& model);

// Reads such a text. Fails with kInvalidArgument where it is of another model, with kUnsupported
// where it has another version, else with kCorrupt. `where` is what messages call it.
Result<std::vector<CacheDirectory::Uses>> ParseUseCounters(std::string_view text,
                                                           const CountedModel& model,
                                                           std::string_view where);

// Where the counters of the model in `folder` may lie: in the folder, and for one that cannot be
// written to, under the user's own cache folder (XDG_CACHE_HOME, else ~/.cache). The first that
// exists is read, the first that can be written is.
std::vector<Path> UseCounterPlaces(const Path& folder, const CountedModel& model);

// Nothing where there are none yet. Fails as ParseUseCounters does.
Result<std::vector<CacheDirectory::Uses>> LoadUseCounters(std::span<const Path> places,
                                                          const CountedModel& model);
Status SaveUseCounters(std::span<const CacheDirectory::Uses> uses, std::span<const Path> places,
                       const CountedModel& model);

}  // namespace picchio
