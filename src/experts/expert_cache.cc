#include "experts/expert_cache.h"

#include <algorithm>
#include <cstring>

namespace picchio {
namespace {

// How many completions are taken at once; what is left is taken by the next call.
constexpr size_t kReapBatch = 64;

// Preloads in flight: enough for a device to be busy, few enough for a demand not to wait long.
constexpr size_t kMaxPreloads = 4;

size_t PrefetchSlots(size_t num_slots, size_t prefetch_slots, size_t experts_per_token) {
  return num_slots >= 2 * experts_per_token + prefetch_slots && num_slots > prefetch_slots + 1
             ? prefetch_slots
             : 0;
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
      directory_({.num_positions =
                      options.num_slots - PrefetchSlots(options.num_slots, options.prefetch_slots,
                                                        options.experts_per_token),
                  .policy = options.policy,
                  .positions_per_layer = options.slots_per_layer}),
      slots_(arena_.num_slots()),
      experts_per_token_(options.experts_per_token),
      completions_(kReapBatch) {
  for (uint32_t slot_idx = 0; slot_idx < slots_.size(); ++slot_idx) {
    (slot_idx < directory_.num_positions() ? slot_of_ : spare_).push_back(slot_idx);
  }
}

ExpertCache::~ExpertCache() {
  PICCHIO_CHECK(!fetching_);
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
  StartReads();
  if (unsubmitted_.empty()) {
    ContinuePreload();
  } else {
    // What is demanded goes before what may be.
    for (const uint32_t slot_idx : spare_) {
      if (slots_[slot_idx].state == State::kLoading) Cancel(slot_idx);
    }
  }
  return Fetch(this);
}

Result<std::span<const ExpertCache::Ready>> ExpertCache::Next() {
  ready_.clear();
  for (Item& item : items_) {
    if (item.handed_out && !item.done) EndItem(item);
  }
  TakeCompletions(std::chrono::nanoseconds(0));
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (StartReads()) ++stats_.waves;
    ContinuePreload();
    CollectReady();
    if (!ready_.empty() || num_done_ == items_.size()) return std::span<const Ready>(ready_);
    if (in_flight_ == 0) {
      // The one thing that would otherwise wait for ever.
      failure_ = Error(Code::kUnavailable, "{} takes no reads", source_->name());
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    TakeCompletions(kForever);
    stats_.wait += std::chrono::steady_clock::now() - start;
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
    SlotUse& use = slots_[item.slot_idx];
    // Named twice, it is begun already.
    if (use.state == State::kEmpty || use.key != item.key) {
      // A read that nobody waits for any more may still be on its way into the slot.
      if (use.state == State::kLoading) {
        if (use.pins == 0) Cancel(item.slot_idx);
        continue;
      }
      PICCHIO_DCHECK(use.pins == 0);
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
    unsubmitted_.erase(unsubmitted_.begin(),
                       unsubmitted_.begin() + static_cast<ptrdiff_t>(accepted));
  }
  return began;
}

void ExpertCache::TakeCompletions(std::chrono::nanoseconds timeout) {
  if (in_flight_ == 0) return;
  size_t count;
  do {
    count = source_->Reap(completions_, timeout);
    for (size_t i = 0; i < count; ++i) Complete(completions_[i]);
    timeout = std::chrono::nanoseconds(0);
  } while (count == completions_.size());
}

void ExpertCache::Complete(const Completion& completion) {
  PICCHIO_CHECK(completion.tag < slots_.size() && completion.last && in_flight_ > 0);
  const auto slot_idx = static_cast<uint32_t>(completion.tag);
  SlotUse& use = slots_[slot_idx];
  PICCHIO_CHECK(use.state == State::kLoading);
  --in_flight_;
  if (use.reason == Reason::kPreload) --preload_in_flight_;
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
  if (held.has_value() && (use.state == State::kEmpty || use.key != *held)) {
    directory_.Forget(position);
  }
}

void ExpertCache::CollectReady() {
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (!item.begun || item.handed_out || slots_[item.slot_idx].state != State::kResident) continue;
    item.handed_out = true;
    ready_.push_back(
        {.index = static_cast<int>(i),
         .record = {arena_.slot(item.slot_idx).data, static_cast<size_t>(layout().record_bytes)}});
  }
}

bool ExpertCache::Speculate(uint32_t slot_idx, ExpertKey key, Reason reason) {
  const ReadRequest request{.key = key,
                            .slot = arena_.slot(slot_idx),
                            .tag = slot_idx,
                            .priority = ReadPriority::kPrefetch};
  SlotUse& use = slots_[slot_idx];
  if (use.state == State::kResident && use.reason == Reason::kPrefetch) {
    stats_.prefetch_wasted_bytes += layout().record_bytes;
  }
  use.state = State::kEmpty;
  if (!unsubmitted_.empty() || source_->Submit({&request, 1}) == 0) return false;
  ++in_flight_;
  use = {.key = key, .state = State::kLoading, .reason = reason, .speculative = true};
  return true;
}

void ExpertCache::Cancel(uint32_t slot_idx) {
  SlotUse& use = slots_[slot_idx];
  if (use.cancelled || !use.speculative) return;
  use.cancelled = true;
  source_->Cancel(slot_idx);
}

void ExpertCache::Prefetch(int layer, std::span<const int32_t> experts) {
  TakeCompletions(std::chrono::nanoseconds(0));
  for (const int32_t expert : experts) {
    const ExpertKey key{layer, expert};
    if (directory_.Find(key).has_value() || SpareWith(key).has_value()) continue;
    for (size_t tried = 0; tried < spare_.size(); ++tried) {
      const uint32_t slot_idx = spare_[next_spare_];
      next_spare_ = (next_spare_ + 1) % spare_.size();
      if (slots_[slot_idx].pins > 0 || slots_[slot_idx].state == State::kLoading) continue;
      if (!Speculate(slot_idx, key, Reason::kPrefetch)) return;
      ++stats_.prefetched;
      break;
    }
  }
}

std::optional<size_t> ExpertCache::SpareWith(ExpertKey key) const {
  for (size_t i = 0; i < spare_.size(); ++i) {
    const SlotUse& use = slots_[spare_[i]];
    if (use.state != State::kEmpty && use.key == key && !use.cancelled) return i;
  }
  return std::nullopt;
}

bool ExpertCache::TakeSpare(ExpertKey key, uint32_t position) {
  const std::optional<size_t> spare = SpareWith(key);
  if (!spare.has_value()) return false;
  std::swap(spare_[*spare], slot_of_[position]);
  return true;
}

void ExpertCache::NoteDemand(uint32_t slot_idx) {
  SlotUse& use = slots_[slot_idx];
  if (use.state == State::kLoading && use.speculative) source_->Promote(slot_idx);
  if (use.reason == Reason::kPrefetch) {
    ++stats_.prefetch_used;
    use.reason = Reason::kDemand;
  }
}

void ExpertCache::Preload(std::span<const CacheDirectory::Uses> uses) {
  PICCHIO_CHECK(!fetching_ && preload_total_ == 0);
  for (const CacheDirectory::Uses& record : uses) directory_.Seed(record.key, record.uses);
  for (const CacheDirectory::Uses& record : uses.first(std::min(uses.size(), slot_of_.size()))) {
    preload_.push_back(record.key);
  }
  std::ranges::reverse(preload_);
  preload_total_ = preload_.size();
  ContinuePreload();
}

void ExpertCache::ContinuePreload() {
  while (!preload_.empty() && preload_in_flight_ < kMaxPreloads && unsubmitted_.empty()) {
    const ExpertKey key = preload_.back();
    if (const std::optional<uint32_t> position = directory_.Preload(key); position.has_value()) {
      const uint32_t slot_idx = slot_of_[*position];
      if (slots_[slot_idx].state == State::kLoading ||
          !Speculate(slot_idx, key, Reason::kPreload)) {
        directory_.Forget(*position);
        return;  // Another time.
      }
      ++preload_in_flight_;
    }
    preload_.pop_back();
  }
}

size_t ExpertCache::ShrinkTo(size_t num_slots) {
  PICCHIO_CHECK(!fetching_);
  size_t num_chunks = arena_.chunks().size();
  const size_t least = std::max<size_t>(directory_.num_parts(), 2);
  while (num_chunks > 1 && arena_.SlotsOf(num_chunks) > num_slots &&
         arena_.SlotsOf(num_chunks - 1) >= least) {
    --num_chunks;
  }
  if (num_chunks == arena_.chunks().size()) return slots_.size();
  preload_.clear();
  for (uint32_t slot_idx = 0; slot_idx < slots_.size(); ++slot_idx) {
    if (slots_[slot_idx].state == State::kLoading) Cancel(slot_idx);
  }
  while (in_flight_ > 0) TakeCompletions(kForever);
  MoveIntoFirst(arena_.SlotsOf(num_chunks));
  for (const MemoryChunk& chunk : arena_.chunks().subspan(num_chunks)) source_->Detach(chunk);
  num_attached_ = num_chunks;
  arena_.ShrinkTo(num_chunks);
  return slots_.size();
}

void ExpertCache::MoveIntoFirst(size_t num_slots) {
  const size_t num_spare = PrefetchSlots(num_slots, spare_.size(), experts_per_token_);
  for (const CacheDirectory::Move& move : directory_.ShrinkTo(num_slots - num_spare)) {
    std::swap(slot_of_[move.from], slot_of_[move.to]);
  }
  slot_of_.resize(directory_.num_positions());
  const auto holds = [&](size_t position) {
    return directory_.Holds(static_cast<uint32_t>(position)).has_value();
  };
  std::vector<bool> taken(num_slots);
  for (size_t position = 0; position < slot_of_.size(); ++position) {
    if (holds(position) && slot_of_[position] < num_slots) taken[slot_of_[position]] = true;
  }
  uint32_t next = 0;
  const auto take_free = [&] {
    while (taken[next]) ++next;
    taken[next] = true;
    slots_[next] = {};
    return next;
  };
  for (size_t position = 0; position < slot_of_.size(); ++position) {
    const uint32_t from = slot_of_[position];
    if (holds(position) && from < num_slots) continue;
    const uint32_t to = slot_of_[position] = take_free();
    if (!holds(position)) continue;
    slots_[to] = slots_[from];
    std::memcpy(arena_.slot(to).data, arena_.slot(from).data, layout().record_bytes);
  }
  spare_.clear();
  for (size_t i = 0; i < num_spare; ++i) spare_.push_back(take_free());
  next_spare_ = 0;
  slots_.resize(num_slots);
}

}  // namespace picchio
