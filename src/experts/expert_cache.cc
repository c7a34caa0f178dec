#include "experts/expert_cache.h"

#include <algorithm>
#include <mutex>

namespace picchio {
namespace {

// How many records are taken from the source at once, and how many are handed out while it has more
// to do. Sources verify what they hand over, in this thread: few enough for the first to be
// computed with soon, enough to share out among threads. Between two batches the source gets what
// it had no room or no slot for; so it runs dry only where computing takes longer than reading,
// which then costs nothing.
constexpr size_t kBatch = 8;

// What a device may still write to, and what would wait for it.
void KeepForever(SlotArena arena, std::unique_ptr<ExpertSource> source) {
  static std::mutex mutex;
  // Never destroyed: not at the end of the process either.
  static auto* const kept = new std::vector<std::pair<SlotArena, std::unique_ptr<ExpertSource>>>();
  const std::scoped_lock lock(mutex);
  kept->emplace_back(std::move(arena), std::move(source));
}

}  // namespace

Result<std::unique_ptr<ExpertCache>> ExpertCache::Create(std::unique_ptr<ExpertSource> source,
                                                         const Options& options) {
  if (options.num_slots < 2) {
    return Error(Code::kInvalidArgument, "an expert cache needs at least 2 slots, not {}",
                 options.num_slots);
  }
  if (options.num_slots >= UINT32_MAX) {
    return Error(Code::kInvalidArgument, "an expert cache has at most {} slots, not {}",
                 UINT32_MAX - 1, options.num_slots);
  }
  if (options.slots_per_layer > 0 &&
      (options.num_slots % options.slots_per_layer != 0 || options.prefetch_slots > 0)) {
    return Error(Code::kInvalidArgument, "{} slots cannot be shared out {} to a layer",
                 options.num_slots, options.slots_per_layer);
  }
  if (!source->CanFill(MemorySpace::kHost)) {
    return Error(Code::kUnsupported, "{} cannot read into this machine's memory", source->name());
  }
  PICCHIO_ASSIGN_OR_RETURN(SlotArena arena,
                           SlotArena::Create(source->slot_bytes(), options.num_slots,
                                             options.chunk_bytes, options.on_backed));
  std::unique_ptr<ExpertCache> cache(new ExpertCache(std::move(source), std::move(arena), options));
  for (const MemoryChunk& chunk : cache->arena_.chunks()) {
    PICCHIO_RETURN_IF_ERROR(cache->source_->Attach(chunk));
    ++cache->num_attached_;
  }
  return cache;
}

ExpertCache::ExpertCache(std::unique_ptr<ExpertSource> source, SlotArena arena,
                         const Options& options)
    : arena_(std::move(arena)),
      source_(std::move(source)),
      on_list_(options.on_list),
      overlap_(options.overlap),
      read_timeout_(options.read_timeout),
      directory_({.num_positions =
                      options.num_slots - PrefetchSlots(options.num_slots, options.prefetch_slots,
                                                        options.experts_per_token),
                  .policy = options.policy,
                  .positions_per_layer = options.slots_per_layer}),
      slots_(arena_.num_slots()),
      experts_per_token_(options.experts_per_token),
      completions_(kBatch) {
  for (uint32_t slot_idx = 0; slot_idx < slots_.size(); ++slot_idx) {
    (slot_idx < directory_.num_positions() ? slot_of_ : spare_).push_back(slot_idx);
  }
}

ExpertCache::~ExpertCache() {
  PICCHIO_CHECK(!fetching_);
  while (num_given_up_ > 0 && TakeCompletions(std::chrono::nanoseconds(0)) > 0) {
  }
  if (num_given_up_ > 0) {
    KeepForever(std::move(arena_), std::move(source_));
    return;
  }
  source_->Drain();
  for (const MemoryChunk& chunk : arena_.chunks().first(num_attached_)) source_->Detach(chunk);
}

ExpertCache::Fetch ExpertCache::Begin(int layer, std::span<const int32_t> experts) {
  PICCHIO_CHECK(!fetching_);
  if (on_list_) on_list_(layer, experts);
  fetching_ = true;
  const std::span<const CacheDirectory::Placement> placements = directory_.Demand(layer, experts);
  for (size_t i = 0; i < experts.size(); ++i) {
    const CacheDirectory::Placement& placement = placements[i];
    const ExpertKey key{layer, experts[i]};
    // A slot that the list uses before cannot change places: the record is read again.
    const bool here = placement.hit || (placement.after < 0 && TakeSpare(key, placement.position));
    Item& item = items_.emplace_back(Item{.key = key,
                                          .position = placement.position,
                                          .slot_idx = slot_of_[placement.position],
                                          .after = placement.after});
    if (here) {
      BeginItem(item);
      NoteDemand(item.slot_idx);
    }
    ++(placement.hit ? stats_.hits : stats_.misses);
  }
  for (const Item& item : items_) {
    if (item.after >= 0) items_[static_cast<size_t>(item.after)].has_heir = true;
  }
  StartReads();
  // What was guessed of this layer and is not demanded is of no use, and what is demanded goes
  // before what may be.
  for (const uint32_t slot_idx : spare_) {
    const SlotUse& use = slots_[slot_idx];
    if (use.state == State::kLoading && (use.key.layer == layer || !unsubmitted_.empty())) {
      Cancel(slot_idx);
    }
  }
  // What had not begun is back at once and has left its room to the demand.
  if (!unsubmitted_.empty() && !spare_.empty() &&
      TakeCompletions(std::chrono::nanoseconds(0)) > 0) {
    StartReads();
  }
  if (unsubmitted_.empty()) ContinuePreload();
  return Fetch(this);
}

Result<std::span<const ExpertCache::Ready>> ExpertCache::Next() {
  ready_.clear();
  for (Item& item : items_) {
    if (item.handed_out && !item.done) EndItem(item);
  }
  // While those were computed, others may have landed and left room at the source. In the end that
  // is what nobody waits for.
  if (num_done_ > 0 || items_.empty()) TakeCompletions(std::chrono::nanoseconds(0));
  Deadline deadline(read_timeout_);
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (StartReads()) ++stats_.waves;
    ContinuePreload();
    CollectReady();
    if (!ready_.empty()) return std::span<const Ready>(ready_);
    if (num_done_ == items_.size()) return std::span<const Ready>();
    if (TakeCompletions(std::chrono::nanoseconds(0)) > 0) {
      deadline = Deadline(read_timeout_);
      continue;
    }
    if (in_flight_ == num_given_up_) {
      // Nothing will come of itself.
      failure_ = num_given_up_ == 0
                     ? Error(Code::kUnavailable, "{} takes no reads", source_->name())
                     : Error(Code::kUnavailable,
                             "{} does not answer, and {} of the cache's {} slots wait for it",
                             source_->name(), num_given_up_, slots_.size());
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const size_t taken = TakeCompletions(deadline.left());
    stats_.wait += std::chrono::steady_clock::now() - start;
    if (taken == 0) {
      if (!deadline.passed()) continue;
      GiveUpReads();
    }
    deadline = Deadline(read_timeout_);
  }
}

bool ExpertCache::AllSubmitted() const {
  return unsubmitted_.empty() &&
         std::ranges::all_of(items_, [](const Item& item) { return item.begun; });
}

CacheStats ExpertCache::stats() const {
  CacheStats stats = stats_;
  if (reading_since_.has_value()) {
    stats.reading += std::chrono::steady_clock::now() - *reading_since_;
  }
  return stats;
}

void ExpertCache::NoteReading() {
  const bool reading = in_flight_ > num_given_up_;
  if (reading == reading_since_.has_value()) return;
  const auto now = std::chrono::steady_clock::now();
  if (reading) {
    reading_since_ = now;
  } else {
    stats_.reading += now - *std::exchange(reading_since_, std::nullopt);
  }
}

void ExpertCache::EndFetch() {
  // What the source never took will not come.
  for (const ReadRequest& request : unsubmitted_) slots_[request.tag].state = State::kEmpty;
  unsubmitted_.clear();
  for (Item& item : items_) {
    if (item.begun && !item.done) EndItem(item);
  }
  for (const Item& item : items_) Reconcile(item.position);
  items_.clear();
  num_done_ = 0;
  ready_.clear();
  failure_ = Status::Ok();
  fetching_ = false;
}

void ExpertCache::BeginItem(Item& item) {
  item.begun = true;
  ++slots_[item.slot_idx].pins;
}

void ExpertCache::UnbeginItem(Item& item) {
  item.begun = false;
  --slots_[item.slot_idx].pins;
}

void ExpertCache::EndItem(Item& item) {
  item.done = true;
  ++num_done_;
  --slots_[item.slot_idx].pins;
}

bool ExpertCache::StartReads() {
  bool began = false;
  for (Item& item : items_) {
    if (item.begun || (item.after >= 0 && !items_[static_cast<size_t>(item.after)].done)) continue;
    if (slots_[slot_of_[item.position]].given_up && !ReplaceSlot(item.position)) continue;
    item.slot_idx = slot_of_[item.position];
    SlotUse& use = slots_[item.slot_idx];
    // Named twice, it is begun already.
    if (use.state == State::kEmpty || use.key != item.key) {
      // Whoever names the same expert as the item before may not be done with it.
      if (use.pins > 0) continue;
      // A read that nobody waits for any more may still be on its way into the slot.
      if (use.state == State::kLoading) {
        Cancel(item.slot_idx);
        continue;
      }
      use = {.key = item.key, .state = State::kLoading};
      unsubmitted_.push_back(
          {.key = item.key, .slot = arena_.slot(item.slot_idx), .tag = item.slot_idx});
      began = true;
    }
    BeginItem(item);
  }
  if (!unsubmitted_.empty()) {
    const size_t accepted = source_->Submit(unsubmitted_);
    in_flight_ += accepted;
    NoteReading();
    unsubmitted_.erase(unsubmitted_.begin(),
                       unsubmitted_.begin() + static_cast<ptrdiff_t>(accepted));
  }
  return began;
}

size_t ExpertCache::TakeCompletions(std::chrono::nanoseconds timeout) {
  if (in_flight_ == 0) return 0;
  const size_t count = source_->Reap(completions_, timeout);
  for (size_t i = 0; i < count; ++i) Complete(completions_[i]);
  NoteReading();
  return count;
}

void ExpertCache::Complete(const Completion& completion) {
  PICCHIO_CHECK(completion.tag < slots_.size() && in_flight_ > 0);
  const auto slot_idx = static_cast<uint32_t>(completion.tag);
  SlotUse& use = slots_[slot_idx];
  PICCHIO_CHECK(use.state == State::kLoading);
  --in_flight_;
  if (use.reason == Reason::kPreload) --preload_in_flight_;
  if (std::exchange(use.given_up, false)) --num_given_up_;
  if (completion.status.ok()) {
    use.state = State::kResident;
    ++stats_.reads;
    stats_.bytes += layout().record_bytes;
    if (completion.tier > 0) ++stats_.fallbacks;
    if (use.reason == Reason::kPreload) ++stats_.preloaded;
    return;
  }
  use.state = State::kEmpty;
  if (!use.cancelled) ++stats_.failed_reads;
  if (use.pins == 0) {
    const std::optional<uint32_t> position = directory_.Find(use.key);
    if (position.has_value() && slot_of_[*position] == slot_idx) directory_.Forget(*position);
  } else if (use.speculative) {
    // Nobody had asked for it when it began; now somebody does, so it is read in earnest.
    for (Item& item : items_) {
      if (item.begun && !item.done && item.slot_idx == slot_idx) UnbeginItem(item);
    }
  } else if (failure_.ok()) {
    failure_ = completion.status;
  }
}

void ExpertCache::Reconcile(uint32_t position) {
  const SlotUse& use = slots_[slot_of_[position]];
  const std::optional<ExpertKey> held = directory_.Holds(position);
  if (held.has_value() && (use.state == State::kEmpty || use.given_up || use.key != *held)) {
    directory_.Forget(position);
  }
}

void ExpertCache::CollectReady() {
  const auto on_its_way = [this](const Item& item) {
    return item.begun && !item.handed_out && slots_[item.slot_idx].state != State::kResident;
  };
  if (!overlap_ && std::ranges::any_of(items_, on_its_way)) return;
  const bool more_to_do = overlap_ && (in_flight_ > 0 || !AllSubmitted());
  const size_t most = more_to_do ? kBatch : items_.size();
  // First those whose slots others wait for.
  for (const bool has_heir : {true, false}) {
    for (size_t i = 0; i < items_.size() && ready_.size() < most; ++i) {
      Item& item = items_[i];
      if (item.has_heir != has_heir || !item.begun || item.handed_out) continue;
      if (slots_[item.slot_idx].state != State::kResident) continue;
      item.handed_out = true;
      ready_.push_back({.index = static_cast<int>(i),
                        .record = {arena_.slot(item.slot_idx).data,
                                   static_cast<size_t>(layout().record_bytes)}});
    }
  }
}

}  // namespace picchio
