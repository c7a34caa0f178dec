// How often a cache of some size would have hit in a recorded run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "experts/access_trace.h"
#include "experts/cache_directory.h"

namespace picchio {

// Hits of a cache that is empty at first: the very decisions that ExpertCache takes with these
// options, so a run's count is this one, to the hit.
uint64_t SimulateHits(const AccessTrace& trace, const CacheDirectory::Options& options);

// The most that any cache of `num_slots` could hit, which knows what comes: it gives up what is
// needed last (Belady 1966). As every cache here it keeps the experts of the current list until
// they are done with; from a list with more experts than slots it keeps what is needed soonest.
uint64_t OptimalHits(const AccessTrace& trace, size_t num_slots);

}  // namespace picchio
