#include "experts/expert_cache.h"

#include <algorithm>

namespace picchio {
namespace {

// How many completions are taken at once; what is left is taken by the next call.
constexpr size_t kReapBatch = 64;

}  // namespace

Result<std::unique_ptr<ExpertCache>> ExpertCache::Create(std::unique_ptr<ExpertSource> source,
                                                         const Options& options) {
  if (options.num_slots < 2) {
    return Error(Code::kInvalidArgument, "an expert cache needs at least 2 slots, not {}",
                 options.num_slots);
  }
  if (options.num_slots >= kNoSlot) {
    return Error(Code::kInvalidArgument, "an expert cache has at most {} slots, not {}",
                 kNoSlot - 1, options.num_slots);
  }
  if (!source->CanFill(MemorySpace::kHost)) {
    return Error(Code::kUnsupported, "{} cannot read into this machine's memory", source->name());
  }
  PICCHIO_ASSIGN_OR_RETURN(
      SlotArena arena,
      SlotArena::Create(source->slot_bytes(), options.num_slots, options.chunk_bytes));
  std::unique_ptr<ExpertCache> cache(new ExpertCache(std::move(source), std::move(arena)));
  for (const MemoryChunk& chunk : cache->arena_.chunks()) {
    PICCHIO_RETURN_IF_ERROR(cache->source_->Attach(chunk));
    ++cache->num_attached_;
  }
  return cache;
}

ExpertCache::ExpertCache(std::unique_ptr<ExpertSource> source, SlotArena arena)
    : arena_(std::move(arena)),
      source_(std::move(source)),
      slots_(arena_.num_slots()),
      order_(static_cast<uint32_t>(arena_.num_slots())),
      completions_(kReapBatch) {
  slot_of_.reserve(slots_.size());
}

ExpertCache::~ExpertCache() {
  PICCHIO_CHECK(!fetching_);
  source_->Drain();
  for (const MemoryChunk& chunk : arena_.chunks().first(num_attached_)) source_->Detach(chunk);
}

ExpertCache::Fetch ExpertCache::Begin(int layer, std::span<const int32_t> experts) {
  PICCHIO_CHECK(!fetching_);
  fetching_ = true;
  items_.clear();
  ready_.clear();
  failure_ = Status::Ok();
  // All hits are pinned before the first miss evicts anything.
  for (const int32_t expert : experts) {
    Item& item = items_.emplace_back(Item{.key = {layer, expert}});
    if (const auto found = slot_of_.find(item.key); found != slot_of_.end()) {
      Pin(item, found->second);
      ++stats_.hits;
    } else {
      ++stats_.misses;
    }
  }
  StartReads();
  return Fetch(this);
}

Result<std::span<const ExpertCache::Ready>> ExpertCache::Next() {
  ready_.clear();
  for (Item& item : items_) {
    if (!item.handed_out || item.done) continue;
    Unpin(item);
    item.done = true;
  }
  TakeCompletions(std::chrono::nanoseconds(0));
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (StartReads()) ++stats_.waves;
    CollectReady();
    const bool all_done =
        std::all_of(items_.begin(), items_.end(), [](const Item& item) { return item.done; });
    if (!ready_.empty() || all_done) return std::span<const Ready>(ready_);
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
  for (Item& item : items_) {
    if (item.slot_idx != kNoSlot) Unpin(item);
  }
  items_.clear();
  ready_.clear();
  // What the source never took will not come.
  for (const ReadRequest& request : unsubmitted_) Forget(static_cast<uint32_t>(request.tag));
  unsubmitted_.clear();
  fetching_ = false;
}

void ExpertCache::Pin(Item& item, uint32_t slot_idx) {
  item.slot_idx = slot_idx;
  ++slots_[slot_idx].pins;
  order_.MakeNewest(slot_idx);
}

void ExpertCache::Unpin(Item& item) {
  --slots_[item.slot_idx].pins;
  item.slot_idx = kNoSlot;
}

bool ExpertCache::StartReads() {
  bool began = false;
  for (Item& item : items_) {
    if (item.slot_idx != kNoSlot || item.done) continue;
    // It may have come since, for a list that names an expert twice.
    if (const auto found = slot_of_.find(item.key); found != slot_of_.end()) {
      Pin(item, found->second);
      continue;
    }
    const auto victim = order_.OldestWhere(
        [this](uint32_t i) { return slots_[i].pins == 0 && slots_[i].state != State::kLoading; });
    if (!victim) break;
    SlotUse& use = slots_[*victim];
    if (use.state == State::kResident) slot_of_.erase(use.key);
    use = {.key = item.key, .state = State::kLoading};
    slot_of_.emplace(item.key, *victim);
    Pin(item, *victim);
    unsubmitted_.push_back({.key = item.key, .slot = arena_.slot(*victim), .tag = *victim});
    began = true;
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
  const uint32_t slot_idx = static_cast<uint32_t>(completion.tag);
  SlotUse& use = slots_[slot_idx];
  PICCHIO_CHECK(use.state == State::kLoading);
  --in_flight_;
  if (completion.status.ok()) {
    use.state = State::kResident;
    ++stats_.reads;
    stats_.bytes += layout().record_bytes;
    if (completion.tier > 0) ++stats_.fallbacks;
    return;
  }
  ++stats_.failed_reads;
  for (Item& item : items_) {
    if (item.slot_idx != slot_idx) continue;
    Unpin(item);
    if (failure_.ok()) failure_ = completion.status;
  }
  Forget(slot_idx);
}

void ExpertCache::Forget(uint32_t slot_idx) {
  SlotUse& use = slots_[slot_idx];
  PICCHIO_DCHECK(use.pins == 0);
  slot_of_.erase(use.key);
  use.state = State::kEmpty;
  order_.MakeOldest(slot_idx);
}

void ExpertCache::CollectReady() {
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (item.slot_idx == kNoSlot || slots_[item.slot_idx].state != State::kResident) continue;
    item.handed_out = true;
    ready_.push_back(
        {.index = static_cast<int>(i),
         .record = {arena_.slot(item.slot_idx).data, static_cast<size_t>(layout().record_bytes)}});
  }
}

}  // namespace picchio
