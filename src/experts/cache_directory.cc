#include "experts/cache_directory.h"

#include <algorithm>

#include "base/check.h"

namespace picchio {
namespace {

// Counters live longer than a policy's memory: they are for the next run, of another text.
constexpr double kUsesHalfLifePasses = 4096;

}  // namespace

CacheDirectory::CacheDirectory(const Options& options) : positions_(options.num_positions) {
  const size_t per_part =
      options.positions_per_layer > 0 ? options.positions_per_layer : options.num_positions;
  PICCHIO_CHECK(options.num_positions > 0 && options.num_positions % per_part == 0);
  parts_.resize(options.num_positions / per_part);
  for (Part& part : parts_) part.policy = MakeEvictionPolicy(options.policy);
  for (auto position = static_cast<uint32_t>(positions_.size()); position-- > 0;) {
    parts_[position % parts_.size()].free.push_back(position);
  }
}

std::span<const CacheDirectory::Placement> CacheDirectory::Demand(
    int layer, std::span<const int32_t> experts) {
  Part& part = PartOf(layer);
  ++list_idx_;
  list_.clear();
  placements_.clear();
  part.policy->BeginList(layer);
  clock_.BeginList(layer);
  // All hits are safe before the first miss evicts anything.
  for (const int32_t expert : experts) {
    const RecordId id = IdOf({layer, expert});
    Record& record = records_[id];
    const auto item = static_cast<int32_t>(list_.size());
    list_.push_back(id);
    placements_.push_back({.position = record.position, .hit = record.position != kNowhere});
    if (record.position != kNowhere) PassOn(record.position, item);
    if (record.list_idx == list_idx_) continue;  // Named twice.
    record.list_idx = list_idx_;
    if (record.offered) Withdraw(part, id);
    part.policy->Use(id);
    record.uses.Add(clock_.pass(), kUsesHalfLifePasses);
  }
  for (size_t i = 0; i < list_.size(); ++i) {
    Placement& placement = placements_[i];
    if (placement.hit) continue;
    if (records_[list_[i]].position == kNowhere) Hold(Claim(part), list_[i]);
    placement.position = records_[list_[i]].position;
    placement.after = PassOn(placement.position, static_cast<int32_t>(i));
    // Named twice, it has the place of the first.
    if (placement.after >= 0 && list_[static_cast<size_t>(placement.after)] == list_[i]) {
      placement.after = placements_[static_cast<size_t>(placement.after)].after;
    }
  }
  OfferList(part);
  return placements_;
}

void CacheDirectory::OfferList(Part& part) {
  for (const RecordId id : list_) {
    if (records_[id].position != kNowhere && !records_[id].offered) Offer(part, id);
  }
}

uint32_t CacheDirectory::Claim(Part& part) {
  if (!part.free.empty()) {
    const uint32_t position = part.free.back();
    part.free.pop_back();
    return position;
  }
  std::optional<uint32_t> position = Evict(part);
  if (!position.has_value()) {
    OfferList(part);
    position = Evict(part);
  }
  PICCHIO_CHECK(position.has_value());
  return *position;
}

std::optional<uint32_t> CacheDirectory::Evict(Part& part) {
  const std::optional<RecordId> victim = part.policy->Victim();
  if (!victim.has_value()) return std::nullopt;
  Withdraw(part, *victim);
  const uint32_t position = records_[*victim].position;
  records_[*victim].position = kNowhere;
  positions_[position].holder = kNobody;
  --num_held_;
  return position;
}

std::optional<uint32_t> CacheDirectory::Find(ExpertKey key) const {
  const auto id = ids_.find(key);
  if (id == ids_.end() || records_[id->second].position == kNowhere) return std::nullopt;
  return records_[id->second].position;
}

std::optional<ExpertKey> CacheDirectory::Holds(uint32_t position) const {
  const RecordId holder = positions_[position].holder;
  return holder == kNobody ? std::nullopt : std::optional(records_[holder].key);
}

void CacheDirectory::Forget(uint32_t position) {
  const RecordId holder = positions_[position].holder;
  if (holder == kNobody) return;
  Part& part = PartOf(records_[holder].key.layer);
  Withdraw(part, holder);
  records_[holder].position = kNowhere;
  positions_[position].holder = kNobody;
  part.free.push_back(position);
  --num_held_;
}

void CacheDirectory::Seed(ExpertKey key, double uses) {
  const RecordId id = IdOf(key);
  records_[id].uses.Add(clock_.pass(), kUsesHalfLifePasses, uses);
  PartOf(key.layer).policy->Seed(id, key.layer, uses);
}

std::optional<uint32_t> CacheDirectory::Preload(ExpertKey key) {
  Part& part = PartOf(key.layer);
  const RecordId id = IdOf(key);
  if (part.free.empty() || records_[id].position != kNowhere) return std::nullopt;
  const uint32_t position = part.free.back();
  part.free.pop_back();
  Hold(position, id);
  Offer(part, id);
  return position;
}

std::vector<CacheDirectory::Uses> CacheDirectory::UsesOfAll() const {
  std::vector<Uses> all;
  for (const Record& record : records_) {
    all.push_back({record.key, record.uses.At(clock_.pass(), kUsesHalfLifePasses)});
  }
  std::ranges::sort(all, [](const Uses& a, const Uses& b) {
    return a.uses != b.uses ? a.uses > b.uses : a.key < b.key;
  });
  return all;
}

std::vector<CacheDirectory::Move> CacheDirectory::ShrinkTo(size_t num_positions) {
  num_positions = std::max(num_positions, parts_.size());
  std::vector<Move> moves;
  if (num_positions >= positions_.size()) return moves;
  for (size_t idx = 0; idx < parts_.size(); ++idx) {
    Part& part = parts_[idx];
    const auto own = [&](size_t end) { return (end - idx + parts_.size() - 1) / parts_.size(); };
    for (size_t held = own(positions_.size()) - part.free.size(); held > own(num_positions);
         --held) {
      const std::optional<uint32_t> position = Evict(part);
      PICCHIO_CHECK(position.has_value());
      part.free.push_back(*position);
    }
    std::erase_if(part.free, [&](uint32_t position) { return position >= num_positions; });
    for (size_t position = idx; position < positions_.size(); position += parts_.size()) {
      const RecordId holder = positions_[position].holder;
      if (position < num_positions || holder == kNobody) continue;
      moves.push_back({static_cast<uint32_t>(position), part.free.back()});
      records_[holder].position = part.free.back();
      positions_[part.free.back()].holder = holder;
      part.free.pop_back();
    }
  }
  positions_.resize(num_positions);
  return moves;
}

RecordId CacheDirectory::IdOf(ExpertKey key) {
  if (const auto found = ids_.find(key); found != ids_.end()) return found->second;
  const auto id = static_cast<RecordId>(records_.size());
  ids_.emplace(key, id);
  records_.push_back({.key = key, .uses = {}});
  return id;
}

CacheDirectory::Part& CacheDirectory::PartOf(int layer) {
  if (parts_.size() == 1) return parts_.front();
  const auto [at, is_new] = part_of_layer_.try_emplace(layer, part_of_layer_.size());
  PICCHIO_CHECK(at->second < parts_.size());
  return parts_[at->second];
}

void CacheDirectory::Offer(Part& part, RecordId record) {
  part.policy->Offer(record);
  records_[record].offered = true;
}

void CacheDirectory::Withdraw(Part& part, RecordId record) {
  part.policy->Withdraw(record);
  records_[record].offered = false;
}

void CacheDirectory::Hold(uint32_t position, RecordId record) {
  records_[record].position = position;
  positions_[position].holder = record;
  ++num_held_;
}

int32_t CacheDirectory::PassOn(uint32_t position, int32_t item) {
  Position& at = positions_[position];
  const int32_t before = at.list_idx == list_idx_ ? at.item : -1;
  at.item = item;
  at.list_idx = list_idx_;
  return before;
}

}  // namespace picchio
