// The expert cache: the only part of this room that the forward pass sees.
//
//   auto cache = ExpertCache::Create(std::move(source), {.num_slots = 512});
//   ExpertCache::Fetch fetch = (*cache)->Begin(layer, experts);      // all misses are now in
//   flight for (;;) {
//     auto ready = fetch.Next();                                     // hits first, then as they
//     land if (!ready.has_value()) return ready.error(); if (ready->empty()) break; for (const
//     ExpertCache::Ready& r : *ready) Compute(experts[r.index], r.record);
//   }
//
// Records come in any order: whoever adds up must do so by index, not by arrival.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "experts/expert_source.h"
#include "experts/lru_order.h"
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

// A fixed number of slots over one source, evicted in order of last use; a slot that somebody
// computes with, waits for or reads into is never evicted. Whatever the source does, a record is
// handed out only after its read has completed with OK. Owning thread only: the one that calls
// Begin.
class ExpertCache {
 public:
  struct Options {
    size_t num_slots = 0;  // At least 2.
    // The arena's pieces: one piece is allocated, registered and given back as a whole.
    uint64_t chunk_bytes = 256_MiB;
  };

  // Allocates and touches all slots and attaches them to the source. Fails with kInvalidArgument
  // for fewer than two slots, kResourceExhausted (with the figures) where they do not fit into
  // memory, kUnsupported where the source cannot fill host memory, or as the source's Attach does.
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

  const CacheStats& stats() const { return stats_; }

 private:
  enum class State : uint8_t { kEmpty, kLoading, kResident };
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  struct SlotUse {
    ExpertKey key;  // Meaningless where empty.
    State state = State::kEmpty;
    uint32_t pins = 0;  // By items of the current fetch.
  };

  struct Item {
    ExpertKey key;
    uint32_t slot_idx = kNoSlot;  // Pinned by this item; kNoSlot before it has one.
    bool handed_out = false;      // The pin goes with the next call.
    bool done = false;            // Handed out and let go.
  };

  ExpertCache(std::unique_ptr<ExpertSource> source, SlotArena arena);

  Result<std::span<const Ready>> Next();
  void EndFetch();

  void Pin(Item& item, uint32_t slot_idx);
  void Unpin(Item& item);
  // Gives slots to items that have none, oldest use first, and submits what the source takes.
  // Returns whether it began a read.
  bool StartReads();
  // Takes completions from the source; waits for one if `timeout` allows.
  void TakeCompletions(std::chrono::nanoseconds timeout);
  void Complete(const Completion& completion);
  void Forget(uint32_t slot_idx);  // The slot is empty, and the first to be used again.
  void CollectReady();

  const SlotArena arena_;  // Outlives the source, which may write to it until it is destroyed.
  const std::unique_ptr<ExpertSource> source_;
  size_t num_attached_ = 0;  // Of the arena's chunks.
  std::vector<SlotUse> slots_;
  LruOrder order_;
  std::unordered_map<ExpertKey, uint32_t> slot_of_;  // Of loading and resident slots.
  std::vector<ReadRequest> unsubmitted_;  // In loading slots; the source had no room yet.
  size_t in_flight_ = 0;                  // Accepted by the source, not yet reaped.

  // The current fetch.
  bool fetching_ = false;
  std::vector<Item> items_;
  std::vector<Ready> ready_;  // What the last Next returned.
  Status failure_;

  std::vector<Completion> completions_;  // Room for Reap.
  CacheStats stats_;
};

}  // namespace picchio
