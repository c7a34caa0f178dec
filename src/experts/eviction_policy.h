// Which record the expert cache gives up next.
//
// A policy sees what is demanded, layer by layer, and of the records that are held those that may
// go; it knows nothing of slots, memory or time. The same object therefore decides in a run and in
// a simulation of one (cache_simulator.h), and for the same lists it decides the same.
//
//   policy->BeginList(layer);
//   for (record of the list) policy->Withdraw(record) if it is held, policy->Use(record);
//   for (each that is not held) victim = policy->Victim(); policy->Withdraw(*victim); ...
//   for (record of the list) policy->Offer(record);
//
// A policy keeps what it knows of records that are not held, too: a model has some thousands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace picchio {

// Numbers that the directory (cache_directory.h) gives to records, from 0 on, as it meets them.
using RecordId = uint32_t;

// One thread at a time. All calls take at most logarithmic time in the number of records (`layer`:
// plus the number of layers) and allocate only for a record that is new to the policy.
class EvictionPolicy {
 public:
  EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;
  virtual ~EvictionPolicy() = default;

  // From here on records of `layer` are used, until the next call. A layer that is not above the
  // one before begins the next pass through the model.
  virtual void BeginList(int layer) = 0;

  // Demanded now. Not among the offered.
  virtual void Use(RecordId record) = 0;

  // Was used so often before this run: what counters from an earlier one tell. Before its first
  // Use.
  virtual void Seed(RecordId /*record*/, int /*layer*/, double /*uses*/) {}

  // Held, and nobody needs it now. It has been used or seeded, and is not offered already.
  virtual void Offer(RecordId record) = 0;
  // No longer so, because it is needed, or gone. It is offered.
  virtual void Withdraw(RecordId record) = 0;

  // Of those offered the one that is worth least; none where none is.
  virtual std::optional<RecordId> Victim() = 0;
};

enum class CachePolicy : uint8_t {
  kReuse,  // "reuse": by the time after which records like it came back, as this run shows it.
  kLru,    // "lru": least recently used.
  kLfu,    // "lfu": least often used, old uses counting less.
  kLru2,   // "lru2": whose last use but one is longest ago.
  kLayer,  // "layer": as lfu, by when its layer comes next.
};

// Measured: docs/caching.md.
inline constexpr CachePolicy kDefaultCachePolicy = CachePolicy::kReuse;
inline constexpr std::array kCachePolicies = {CachePolicy::kReuse, CachePolicy::kLru,
                                              CachePolicy::kLfu, CachePolicy::kLru2,
                                              CachePolicy::kLayer};

std::string_view CachePolicyName(CachePolicy policy);
std::optional<CachePolicy> FindCachePolicy(std::string_view name);

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(CachePolicy policy);

// One per file.
std::unique_ptr<EvictionPolicy> MakeLruPolicy();
std::unique_ptr<EvictionPolicy> MakeLfuPolicy();
std::unique_ptr<EvictionPolicy> MakeLru2Policy();
std::unique_ptr<EvictionPolicy> MakeLayerPolicy();
std::unique_ptr<EvictionPolicy> MakeReusePolicy();

}  // namespace picchio
