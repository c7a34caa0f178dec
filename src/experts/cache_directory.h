// What the expert cache holds, and where: the part of it that decides, without memory and without
// reads. The cache carries out what it says (expert_cache.h); a simulation only counts
// (cache_simulator.h). So both decide the same, and no decision depends on when a read completes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "experts/decayed_count.h"
#include "experts/eviction_policy.h"
#include "experts/expert_source.h"

namespace picchio {

// Positions [0, num_positions), each for one record, over one policy for all layers or, for
// comparison, in equal parts with a policy for each layer. One thread at a time; allocates only for
// records that it has not met before and for longer lists than ever.
class CacheDirectory {
 public:
  struct Options {
    size_t num_positions = 0;  // At least 1.
    CachePolicy policy = kDefaultCachePolicy;
    // 0: all layers share all positions. Else each MoE layer has so many of its own, and
    // num_positions is a multiple of it.
    size_t positions_per_layer = 0;
  };

  explicit CacheDirectory(const Options& options);

  // What becomes of one expert of a list.
  struct Placement {
    uint32_t position = 0;
    bool hit = false;  // Held before the list came.
    // The place in the list of the expert that must be done with the position before this one is
    // read into it: for lists with more experts than there are positions. None where it is free.
    int32_t after = -1;
  };

  // A list is demanded: experts of one layer. What is held stays; every other one gets a position,
  // that of the record the policy thinks least of, never one that the list still needs: where there
  // is no other, those that the list has had so far count as done with. The result holds until the
  // next call.
  std::span<const Placement> Demand(int layer, std::span<const int32_t> experts);

  // Where a record is held; nothing where it is not.
  std::optional<uint32_t> Find(ExpertKey key) const;
  // What a position holds; nothing where it is free.
  std::optional<ExpertKey> Holds(uint32_t position) const;

  // The position is free, as the record never came.
  void Forget(uint32_t position);

  // Uses of a record before this run; before its first.
  void Seed(ExpertKey key, double uses);
  // Holds a seeded record that nobody has demanded, in a position that is free; nothing where there
  // is none, or the record is held already.
  std::optional<uint32_t> Preload(ExpertKey key);

  struct Uses {
    ExpertKey key;
    double uses = 0;
  };
  // How often each record was used, seeds counted, old uses counting less: the most used first.
  std::vector<Uses> UsesOfAll() const;

  struct Move {
    uint32_t from = 0;
    uint32_t to = 0;
  };
  // Makes do with fewer positions, at least one for each layer that has its own: the records that
  // are worth least go, the others come to lie in [0, num_positions). Returns those that have
  // moved, none to where another one was.
  std::vector<Move> ShrinkTo(size_t num_positions);

  size_t num_parts() const { return parts_.size(); }
  size_t num_positions() const { return positions_.size(); }
  size_t num_held() const { return num_held_; }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  static constexpr RecordId kNobody = UINT32_MAX;

  struct Record {
    ExpertKey key;
    uint32_t position = kNowhere;
    bool offered = false;
    DecayedCount uses;
    uint64_t list_idx = 0;  // The last list that named it.
  };
  struct Position {
    RecordId holder = kNobody;
    // Who in the current list uses it, last; meaningful where list_idx is the current one.
    int32_t item = -1;
    uint64_t list_idx = 0;
  };
  // Its own are the positions p with p % parts_.size() == its index, so that those of each lie
  // evenly in memory and giving back the end of it takes from all alike.
  struct Part {
    std::unique_ptr<EvictionPolicy> policy;
    std::vector<uint32_t> free;
  };

  RecordId IdOf(ExpertKey key);
  Part& PartOf(int layer);
  void Offer(Part& part, RecordId record);
  void Withdraw(Part& part, RecordId record);
  void OfferList(Part& part);  // What of the current list is held and not offered.
  // Empties the position of the record that is worth least of those offered; nothing where none is.
  std::optional<uint32_t> Evict(Part& part);
  // A free position of the part, or an emptied one.
  uint32_t Claim(Part& part);
  void Hold(uint32_t position, RecordId record);
  // The place in the list of the last item so far that uses the position, now `item`.
  int32_t PassOn(uint32_t position, int32_t item);

  std::vector<Part> parts_;
  std::unordered_map<int, size_t> part_of_layer_;
  std::unordered_map<ExpertKey, RecordId> ids_;
  std::vector<Record> records_;
  std::vector<Position> positions_;
  size_t num_held_ = 0;
  PassClock clock_;

  uint64_t list_idx_ = 0;
  std::vector<RecordId> list_;
  std::vector<Placement> placements_;
};

}  // namespace picchio
