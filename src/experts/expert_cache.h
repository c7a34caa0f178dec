// The expert cache: the only part of this room that the forward pass sees.
//
//   auto cache = ExpertCache::Create(std::move(source), {.num_slots = 512});
//   ExpertCache::Fetch fetch = (*cache)->Begin(layer, experts);  // All misses are now in flight.
//   for (;;) {
//     auto ready = fetch.Next();  // Hits first, then as they land.
//     if (!ready.has_value()) return ready.error();
//     if (ready->empty()) break;
//     for (const ExpertCache::Ready& r : *ready) Compute(experts[r.index], r.record);
//   }
//
// Records come in any order: whoever adds up must do so by index, not by arrival.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "experts/cache_directory.h"
#include "experts/eviction_policy.h"
#include "experts/expert_source.h"
#include "experts/slot_arena.h"

namespace picchio {

// Counted from the cache's creation. hits + misses is the number of experts asked for.
struct CacheStats {
  uint64_t hits = 0;          // Resident, or already on their way.
  uint64_t misses = 0;        // Needed a read.
  uint64_t reads = 0;         // Completed with the record's bytes.
  uint64_t failed_reads = 0;  // Completed without them.
  uint64_t bytes = 0;         // Of records read.
  uint64_t fallbacks = 0;     // Reads that not the first tier of a tiered source served.
  uint64_t waves = 0;         // Times a list was read in a further part, for want of free slots.
  std::chrono::nanoseconds wait{0};  // Spent in Next() waiting for storage.
};

// A fixed number of slots over one source. What is held and what goes is the directory's to say
// (cache_directory.h); here it is carried out, so that a slot that somebody computes with, waits
// for or reads into is never overwritten. Whatever the source does, a record is handed out only
// after its read has completed with OK. Nothing allocates for hits, nor for misses of records that
// have been met before. Owning thread only: the one that calls Begin.
class ExpertCache {
 public:
  struct Options {
    size_t num_slots = 0;  // At least 2.
    // The arena's pieces: one piece is allocated, registered and given back as a whole.
    uint64_t chunk_bytes = 256_MiB;
    CachePolicy policy = kDefaultCachePolicy;
    // 0: the layers share all slots. Else each MoE layer has so many of its own; num_slots is then
    // a multiple of it, for as many layers as will be asked for.
    size_t slots_per_layer = 0;
    // Told of every list that Begin is asked for, before it looks. May be empty.
    std::function<void(int layer, std::span<const int32_t> experts)> on_list{};
    std::function<void(uint64_t)> on_backed{};  // As in SlotArena::Create.
  };

  // Allocates and touches all slots and attaches them to the source. Fails with kInvalidArgument
  // for fewer than two slots or parts that are not equal, kResourceExhausted (with the figures)
  // where they do not fit into memory, kUnsupported where the source cannot fill host memory, or as
  // the source's Attach does.
  static Result<std::unique_ptr<ExpertCache>> Create(std::unique_ptr<ExpertSource> source,
                                                     const Options& options);
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;
  ~ExpertCache();  // Waits for reads that have begun.

  const ExpertRecordLayout& layout() const { return source_->layout(); }

  struct Ready {
    int index = 0;                      // Position in the list given to Begin.
    std::span<const std::byte> record;  // layout().record_bytes, at a multiple of 4096.
  };

  // One list of experts on its way to the one who computes them. One exists at a time; it must end
  // before the cache does. It may end early: what is in flight then lands and stays as a later hit.
  class Fetch {
   public:
    Fetch(Fetch&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
    Fetch& operator=(Fetch&& other) noexcept {
      std::swap(cache_, other.cache_);
      return *this;
    }
    ~Fetch() {
      if (cache_ != nullptr) cache_->EndFetch();
    }

    // Blocks until at least one more expert of the list is resident; returns all that are and have
    // not been handed out, pinned until the next call or the end of the Fetch. Empty when all have
    // been. Hits come with the first call, which waits only if there are none.
    // Fails as the read of one of the list's experts failed, with a message that names it; every
    // later call fails likewise, the cache itself stays usable.
    Result<std::span<const Ready>> Next() { return cache_->Next(); }

   private:
    friend class ExpertCache;
    explicit Fetch(ExpertCache* cache) : cache_(cache) {}

    ExpertCache* cache_;
  };

  // Pins what is resident of these experts of one layer and submits the reads of all others, as far
  // as there are slots; Next submits the rest. The list is copied.
  Fetch Begin(int layer, std::span<const int32_t> experts);

  const SlotArena& arena() const { return arena_; }
  const CacheStats& stats() const { return stats_; }

 private:
  enum class State : uint8_t { kEmpty, kLoading, kResident };

  struct SlotUse {
    ExpertKey key;  // Meaningless where empty.
    State state = State::kEmpty;
    uint32_t pins = 0;  // By items of the current fetch that have it and are not done.
  };

  struct Item {
    ExpertKey key;
    uint32_t slot_idx = 0;
    int32_t after = -1;       // The item that must be done with the slot before; none below 0.
    bool begun = false;       // The slot is this item's: it has the record, or is having it read.
    bool handed_out = false;  // Done with the next call.
    bool done = false;
  };

  ExpertCache(std::unique_ptr<ExpertSource> source, SlotArena arena, const Options& options);

  Result<std::span<const Ready>> Next();
  void EndFetch();

  void BeginItem(Item& item);
  void EndItem(Item& item);
  // Begins the reads of items whose slots have become free, and submits what the source takes.
  // Returns whether it began one.
  bool StartReads();
  // Takes completions from the source; waits for one if `timeout` allows.
  void TakeCompletions(std::chrono::nanoseconds timeout);
  void Complete(const Completion& completion);
  // Makes the directory's word on a slot good where the record it speaks of has not come.
  void Reconcile(uint32_t slot_idx);
  void CollectReady();

  const SlotArena arena_;  // Outlives the source, which may write to it until it is destroyed.
  const std::unique_ptr<ExpertSource> source_;
  const std::function<void(int, std::span<const int32_t>)> on_list_;
  size_t num_attached_ = 0;  // Of the arena's chunks.
  CacheDirectory directory_;
  std::vector<SlotUse> slots_;            // By the directory's positions.
  std::vector<ReadRequest> unsubmitted_;  // In loading slots; the source had no room yet.
  size_t in_flight_ = 0;                  // Accepted by the source, not yet reaped.

  // The current fetch.
  bool fetching_ = false;
  std::vector<Item> items_;
  size_t num_done_ = 0;
  std::vector<Ready> ready_;  // What the last Next returned.
  Status failure_;

  std::vector<Completion> completions_;  // Room for Reap.
  CacheStats stats_;
};

}  // namespace picchio
