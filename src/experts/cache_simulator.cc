#include "experts/cache_simulator.h"

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace picchio {
namespace {

constexpr size_t kNever = SIZE_MAX;

// For each list and each of its experts, the next list that has it.
std::vector<std::vector<size_t>> NextUses(const AccessTrace& trace) {
  std::vector<std::vector<size_t>> next(trace.lists.size());
  std::unordered_map<ExpertKey, size_t> seen;
  for (size_t i = trace.lists.size(); i-- > 0;) {
    const AccessTrace::List& list = trace.lists[i];
    for (const int32_t expert : list.experts) {
      const auto found = seen.find({list.layer, expert});
      next[i].push_back(found == seen.end() ? kNever : found->second);
    }
    for (const int32_t expert : list.experts) seen[{list.layer, expert}] = i;
  }
  return next;
}

}  // namespace

uint64_t SimulateHits(const AccessTrace& trace, const CacheDirectory::Options& options) {
  CacheDirectory directory(options);
  uint64_t hits = 0;
  for (const AccessTrace::List& list : trace.lists) {
    for (const auto& placement : directory.Demand(list.layer, list.experts)) {
      hits += placement.hit ? 1 : 0;
    }
  }
  return hits;
}

uint64_t OptimalHits(const AccessTrace& trace, size_t num_slots) {
  const std::vector<std::vector<size_t>> next_uses = NextUses(trace);
  std::set<std::pair<size_t, ExpertKey>> held;  // By next use.
  std::unordered_map<ExpertKey, size_t> next_of_held;
  const auto evict_last = [&] {
    const auto last = std::prev(held.end());
    next_of_held.erase(last->second);
    held.erase(last);
  };
  uint64_t hits = 0;
  std::unordered_map<ExpertKey, size_t> pinned;
  for (size_t i = 0; i < trace.lists.size(); ++i) {
    const AccessTrace::List& list = trace.lists[i];
    pinned.clear();
    for (size_t j = 0; j < list.experts.size(); ++j) {
      const ExpertKey key{list.layer, list.experts[j]};
      if (const auto found = next_of_held.find(key); found != next_of_held.end()) {
        ++hits;
        held.erase({found->second, key});
        next_of_held.erase(found);
      }
      pinned.emplace(key, next_uses[i][j]);
    }
    if (pinned.size() <= num_slots) {
      while (held.size() + pinned.size() > num_slots) evict_last();
    }
    for (const auto& [key, next] : pinned) {
      held.emplace(next, key);
      next_of_held.emplace(key, next);
    }
    while (held.size() > num_slots) evict_last();
  }
  return hits;
}

}  // namespace picchio
