#include "experts/expert_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

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
  if (options.num_slots >= UINT32_MAX) {
    return Error(Code::kInvalidArgument, "an expert cache has at most {} slots, not {}",
                 UINT32_MAX - 1, options.num_slots);
  }
  if (options.slots_per_layer > 0 && options.num_slots % options.slots_per_layer != 0) {
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
      directory_({.num_positions = options.num_slots,
                  .policy = options.policy,
                  .positions_per_layer = options.slots_per_layer}),
      slots_(arena_.num_slots()),
      completions_(kReapBatch) {}

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
    Item& item = items_.emplace_back(
        Item{.key = {layer, experts[i]}, .slot_idx = placement.position, .after = placement.after});
    if (placement.hit) BeginItem(item);
    ++(placement.hit ? stats_.hits : stats_.misses);
  }
  StartReads();
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
  for (const Item& item : items_) Reconcile(item.slot_idx);
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
      if (use.state == State::kLoading) continue;
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
  if (use.pins > 0 && failure_.ok()) failure_ = completion.status;
  use.state = State::kEmpty;
  // A fetch that it is for sets the directory right when it ends.
  if (use.pins == 0 && directory_.Holds(slot_idx) == use.key) directory_.Forget(slot_idx);
}

void ExpertCache::Reconcile(uint32_t slot_idx) {
  const SlotUse& use = slots_[slot_idx];
  const std::optional<ExpertKey> held = directory_.Holds(slot_idx);
  if (held.has_value() && (use.state == State::kEmpty || use.key != *held)) {
    directory_.Forget(slot_idx);
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

}  // namespace picchio
