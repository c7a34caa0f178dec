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
#include <optional>
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
  uint64_t hits = 0;           // Resident, or already on their way.
  uint64_t misses = 0;         // Needed a read.
  uint64_t reads = 0;          // Completed with the record's bytes.
  uint64_t failed_reads = 0;   // Completed without them.
  uint64_t bytes = 0;          // Of records read.
  uint64_t fallbacks = 0;      // Reads that not the first tier of a tiered source served.
  uint64_t waves = 0;          // Times a list was read in a further part, for want of free slots.
  uint64_t prefetched = 0;     // Reads begun by Prefetch.
  uint64_t prefetch_used = 0;  // Of those, records that were then demanded; misses without a read.
  uint64_t prefetch_wasted_bytes = 0;  // Of those, records read and given up without a demand.
  uint64_t preloaded = 0;              // Records read by Preload.
  uint64_t timeouts = 0;               // Reads given up since the source did not answer.
  std::chrono::nanoseconds wait{0};    // Spent in Next() waiting for storage.
  // With reads at the source, as far as the cache knew: what of it is not `wait` was hidden behind
  // work. Reads that were given up do not count.
  std::chrono::nanoseconds reading{0};
};

// A fixed number of slots over one source. What is held and what goes is the directory's to say
// (cache_directory.h); here it is carried out, so that a slot that somebody computes with, waits
// for or reads into is never overwritten. Whatever the source does, a record is handed out only
// after its read has completed with OK. Owning thread only: the one that calls Begin.
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
    // So many of the slots are for Prefetch, none where that would leave fewer than 2 * top_k.
    size_t prefetch_slots = 0;
    size_t experts_per_token = 0;  // The model's; only where there are prefetch slots.
    // Off: a list is handed out when all is there that there are slots for, as by an engine that
    // reads first and computes then.
    bool overlap = true;
    // How long a list waits without a record before the reads that are on their way are given up.
    // Far beyond what a drive takes that still works: a disk that spins up needs ten seconds.
    std::chrono::nanoseconds read_timeout = std::chrono::seconds(30);
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
  // Waits for reads that have begun, but not for those that were given up: memory and source then
  // stay as they are until the process ends, since a device may still write.
  ~ExpertCache();

  // How many prefetch slots a cache of so many slots has.
  static size_t PrefetchSlots(size_t num_slots, size_t wished, size_t experts_per_token) {
    return num_slots >= 2 * experts_per_token + wished && num_slots > wished + 1 ? wished : 0;
  }

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

    // Blocks until at least one more expert of the list is resident; returns those that are and
    // have not been handed out, pinned until the next call or the end of the Fetch: all of them, or
    // a few at a time while the source has more to do. Empty when all have been. Hits come first:
    // the first call looks at and verifies nothing else, and waits only if there are none; every
    // later one takes what has landed meanwhile and keeps the source busy.
    // Fails as the read of one of the list's experts failed, with a message that names it; every
    // later call fails likewise, the cache itself stays usable. A source that does not answer is
    // kUnavailable, unless it has another place to read from: the record then comes from there,
    // into another slot, and the first slot is not used again until its read has completed.
    Result<std::span<const Ready>> Next() { return cache_->Next(); }

    // The source has the reads of all that is missing: from now on Prefetch keeps it busy.
    bool all_submitted() const { return cache_->AllSubmitted(); }

   private:
    friend class ExpertCache;
    explicit Fetch(ExpertCache* cache) : cache_(cache) {}

    ExpertCache* cache_;
  };

  // Pins what is resident of these experts of one layer and submits the reads of all others, as far
  // as there are slots; Next submits the rest. The list is copied.
  Fetch Begin(int layer, std::span<const int32_t> experts);

  const SlotArena& arena() const { return arena_; }

  // These experts may be demanded soon: begins to read those that are not held into the slots set
  // aside for that, oldest prefetch first, as far as there are such slots and the source has room;
  // drops the others. Never takes a slot or a read from what is demanded. A prefetch that fails is
  // no error: the record is read again when it is demanded. May be called during a Fetch. Hits and
  // what the cache holds do not depend on it: a demand finds the record as if it had been read at
  // once.
  void Prefetch(int layer, std::span<const int32_t> experts);

  // Counters of an earlier run; before the first Begin. The records, most used first, are then read
  // into slots that nothing has claimed yet, a few at a time and after what is demanded, while
  // Begin and Next are called, by the thread that calls those: this may be another one.
  void Preload(std::span<const CacheDirectory::Uses> uses);
  size_t preload_total() const { return preload_total_; }
  // So many of them are loaded, were demanded first, or found no slot.
  size_t preload_done() const { return preload_total_ - preload_.size() - preload_in_flight_; }
  // How often each record was used, most used first, for the next run.
  std::vector<CacheDirectory::Uses> UsesOfAll() const { return directory_.UsesOfAll(); }

  // Gives memory back while a run goes on, in whole chunks: as many as must go for at most
  // `num_slots` to stay, but never the last one. The records worth most stay. Not during a Fetch.
  // Waits for reads in flight; returns how many slots there are now. While the source owes reads
  // that were given up, none can go.
  size_t ShrinkTo(size_t num_slots);

  size_t num_slots() const { return slots_.size(); }
  size_t num_prefetch_slots() const { return spare_.size(); }
  bool overlap() const { return overlap_; }
  uint64_t slot_bytes() const { return arena_.stride(); }

  // Of the source, now: demanded, prefetched, preloaded and given up.
  size_t reads_in_flight() const { return in_flight_; }

  CacheStats stats() const;
  std::chrono::nanoseconds wait() const { return stats_.wait; }  // As in stats().

 private:
  enum class State : uint8_t { kEmpty, kLoading, kResident };

  // What a record was read for; a prefetch is one until it is demanded.
  enum class Reason : uint8_t { kDemand, kPrefetch, kPreload };

  struct SlotUse {
    ExpertKey key{};  // Meaningless where empty.
    State state = State::kEmpty;
    Reason reason = Reason::kDemand;
    bool speculative = false;  // Nobody had demanded the record when its read began.
    bool cancelled = false;
    bool given_up = false;  // Overdue: the source's until it completes, and nobody waits for it.
    uint32_t pins = 0;      // By items of the current fetch that have it and are not done.
  };

  struct Item {
    ExpertKey key;
    uint32_t position = 0;  // The directory's.
    uint32_t slot_idx = 0;
    int32_t after = -1;       // The item that must be done with the slot before; none below 0.
    bool has_heir = false;    // Another item is after this one.
    bool begun = false;       // The slot is this item's: it has the record, or is having it read.
    bool handed_out = false;  // Done with the next call.
    bool done = false;
  };

  ExpertCache(std::unique_ptr<ExpertSource> source, SlotArena arena, const Options& options);

  Result<std::span<const Ready>> Next();
  bool AllSubmitted() const;
  void EndFetch();

  // The slot where a record that is not held was prefetched to changes places with that of
  // `position`; false where there is none.
  bool TakeSpare(ExpertKey key, uint32_t position);
  // The index of the spare slot that has this record, or will.
  std::optional<size_t> SpareWith(ExpertKey key) const;
  // A demand for what is in the slot, or on its way.
  void NoteDemand(uint32_t slot_idx);
  void Cancel(uint32_t slot_idx);
  // Begins a read that nobody has demanded; false, with the slot empty, where the source has no
  // room.
  bool Speculate(uint32_t slot_idx, ExpertKey key, Reason reason);
  void ContinuePreload();
  // Makes do with the first slots: what is worth keeping in others is copied.
  void MoveIntoFirst(size_t num_slots);

  void BeginItem(Item& item);
  void UnbeginItem(Item& item);
  void EndItem(Item& item);
  // Begins the reads of items whose slots have become free, and submits what the source takes.
  // Returns whether it began one.
  bool StartReads();
  // Takes completions from the source; waits for one if `timeout` allows.
  // Returns how many came.
  size_t TakeCompletions(std::chrono::nanoseconds timeout);
  void Complete(const Completion& completion);
  // Makes the directory's word on a position good where the record it speaks of has not come.
  void Reconcile(uint32_t position);
  void CollectReady();
  // Begins or ends a stretch of stats_.reading, after in_flight_ or num_given_up_ has changed.
  void NoteReading();
  // Nothing has come for too long: whoever waits for a read that the source has waits no longer.
  void GiveUpReads();
  // Another slot for a position whose own the source does not give back, at the expense of a
  // record that the list does not use; false where there is none now.
  bool ReplaceSlot(uint32_t position);

  SlotArena arena_;  // Outlives the source, which may write to it until it is destroyed.
  std::unique_ptr<ExpertSource> source_;
  const std::function<void(int, std::span<const int32_t>)> on_list_;
  const bool overlap_;
  const std::chrono::nanoseconds read_timeout_;
  size_t num_attached_ = 0;  // Of the arena's chunks.
  CacheDirectory directory_;
  std::vector<SlotUse> slots_;
  std::vector<uint32_t> slot_of_;  // By the directory's positions.
  std::vector<uint32_t> spare_;    // Slots of no position, for Prefetch, in a circle.
  size_t next_spare_ = 0;
  size_t experts_per_token_ = 0;
  std::vector<ExpertKey> preload_;  // Not begun yet, the next one last.
  size_t preload_total_ = 0;
  size_t preload_in_flight_ = 0;
  std::vector<ReadRequest> unsubmitted_;  // In loading slots; the source had no room yet.
  size_t in_flight_ = 0;                  // Accepted by the source, not yet reaped;
  size_t num_given_up_ = 0;               // of those, so many were given up.

  // The current fetch.
  bool fetching_ = false;
  std::vector<Item> items_;
  size_t num_done_ = 0;
  std::vector<Ready> ready_;  // What the last Next returned.
  Status failure_;

  std::vector<Completion> completions_;  // Room for Reap.
  CacheStats stats_;
  std::optional<std::chrono::steady_clock::time_point> reading_since_;
};

}  // namespace picchio
