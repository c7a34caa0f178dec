#include "experts/tiered_expert_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace picchio {
namespace {

// How long one of several busy tiers is waited for before the others are looked at. Only a read
// that fell back while others did not is ever delayed by it, by less than a drive takes for a
// record.
constexpr std::chrono::nanoseconds kWaitSlice = std::chrono::microseconds(500);

bool SamePart(const RecordPart& a, const RecordPart& b) {
  return a.offset == b.offset && a.bytes == b.bytes;
}

bool SameLayout(const ExpertRecordLayout& a, const ExpertRecordLayout& b) {
  return a.kind == b.kind && a.hidden_size == b.hidden_size &&
         a.intermediate_size == b.intermediate_size && SamePart(a.gate_up, b.gate_up) &&
         SamePart(a.gate_up_scales, b.gate_up_scales) && SamePart(a.down, b.down) &&
         SamePart(a.down_scales, b.down_scales) && SamePart(a.gate_up_bias, b.gate_up_bias) &&
         SamePart(a.down_bias, b.down_bias) && a.record_bytes == b.record_bytes;
}

std::string JoinNames(std::span<const std::unique_ptr<ExpertSource>> tiers) {
  std::string names = tiers[0]->name();
  for (const auto& tier : tiers.subspan(1)) names += ", else " + tier->name();
  return names;
}

// The message without the expert's name, which begins every source's messages.
std::string_view WithoutKey(std::string_view message, ExpertKey key) {
  const std::string prefix = ToString(key) + ": ";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  return message;
}

}  // namespace

Result<std::unique_ptr<TieredExpertSource>> TieredExpertSource::Create(
    std::vector<std::unique_ptr<ExpertSource>> tiers, Notice notice, std::string remedy) {
  if (tiers.empty()) return Error(Code::kInvalidArgument, "no source of experts");
  for (const auto& tier : tiers) {
    if (SameLayout(tier->layout(), tiers[0]->layout())) continue;
    return Error(Code::kInvalidArgument, "{} and {} deliver different records ({} and {} bytes)",
                 tiers[0]->name(), tier->name(), tiers[0]->layout().record_bytes,
                 tier->layout().record_bytes);
  }
  return std::unique_ptr<TieredExpertSource>(
      new TieredExpertSource(std::move(tiers), std::move(notice), std::move(remedy)));
}

TieredExpertSource::TieredExpertSource(std::vector<std::unique_ptr<ExpertSource>> tiers,
                                       Notice notice, std::string remedy)
    : tiers_(std::move(tiers)),
      notice_(std::move(notice)),
      remedy_(std::move(remedy)),
      name_(JoinNames(tiers_)),
      in_tier_(tiers_.size()),
      owed_(tiers_.size()) {
  for (const auto& tier : tiers_) stats_.push_back({.name = tier->name()});
}

uint64_t TieredExpertSource::slot_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) bytes = std::max(bytes, tier->slot_bytes());
  return bytes;
}

bool TieredExpertSource::CanFill(MemorySpace space) const {
  return std::all_of(tiers_.begin(), tiers_.end(),
                     [space](const auto& tier) { return tier->CanFill(space); });
}

Status TieredExpertSource::Attach(const MemoryChunk& chunk) {
  for (size_t i = 0; i < tiers_.size(); ++i) {
    Status attached = tiers_[i]->Attach(chunk);
    if (attached.ok()) continue;
    while (i-- > 0) tiers_[i]->Detach(chunk);
    return attached;
  }
  return Status::Ok();
}

void TieredExpertSource::Detach(const MemoryChunk& chunk) {
  for (const auto& tier : tiers_) tier->Detach(chunk);
}

size_t TieredExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t owed = std::accumulate(owed_.begin(), owed_.end(), size_t{0});
  const size_t held = reads_.size() - owed;
  const size_t room = std::min(requests.size(), max_in_flight() - std::min(held, max_in_flight()));
  const size_t tier = FirstTier();
  const size_t accepted = room == 0 ? 0 : tiers_[tier]->Submit(requests.first(room));
  for (const ReadRequest& request : requests.first(accepted)) {
    Read& read = reads_[request.tag];
    read.request = request;
    read.tier = tier;
    for (size_t silent = 0; silent < tier; ++silent) {
      read.failures += fmt::format("{} does not answer; then ", tiers_[silent]->name());
    }
  }
  in_tier_[tier] += accepted;
  return accepted;
}

size_t TieredExpertSource::FirstTier() const {
  size_t tier = 0;
  while (tier + 1 < tiers_.size() && owed_[tier] > 0) ++tier;
  return tier;
}

size_t TieredExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) {
  if (out.empty()) return 0;
  const Deadline deadline(timeout);
  for (;;) {
    size_t count = SubmitRetries(out);
    for (size_t tier = 0; tier < tiers_.size() && count < out.size(); ++tier) {
      count += ReapTier(tier, out.subspan(count), std::chrono::nanoseconds(0));
    }
    // What has just failed may be in flight again while the caller computes.
    count += SubmitRetries(out.subspan(count));
    if (count == 0 && !reads_.empty()) count = WaitForTiers(out, deadline.left());
    if (count > 0 || reads_.empty() || deadline.passed()) return count;
  }
}

size_t TieredExpertSource::SubmitRetries(std::span<Completion> out) {
  size_t count = 0;
  for (size_t left = retries_.size(); left > 0; --left) {
    const uint64_t tag = retries_.front();
    Read& read = reads_.at(tag);
    if (read.cancelled) {
      if (count == out.size()) return count;
      out[count++] = {.tag = tag,
                      .status = Error(Code::kCancelled, "{}: the read was cancelled",
                                      ToString(read.request.key))};
      Forget(tag);
    } else if (tiers_[read.tier]->Submit({&read.request, 1}) == 1) {
      read.queued = false;
      ++in_tier_[read.tier];
    } else {
      retries_.push_back(tag);  // No room in that tier, maybe in another.
    }
    retries_.pop_front();
  }
  return count;
}

size_t TieredExpertSource::ReapTier(size_t tier, std::span<Completion> out,
                                    std::chrono::nanoseconds timeout) {
  if (in_tier_[tier] == 0) return 0;
  const size_t reaped = tiers_[tier]->Reap(out, timeout);
  in_tier_[tier] -= reaped;
  size_t count = 0;
  for (size_t i = 0; i < reaped; ++i) {
    if (!Settle(tier, out[i])) continue;
    if (count != i) out[count] = std::move(out[i]);
    ++count;
  }
  return count;
}

bool TieredExpertSource::Settle(size_t tier, Completion& completion) {
  const auto found = reads_.find(completion.tag);
  PICCHIO_CHECK(found != reads_.end());
  Read& read = found->second;
  completion.tier = static_cast<uint8_t>(tier);
  const Status& status = completion.status;
  if (status.ok()) {
    ++stats_[tier].served;
  } else if (status.code() != Code::kCancelled) {
    ++stats_[tier].failed;
    const std::string_view said = WithoutKey(status.message(), read.request.key);
    if (tier + 1 < tiers_.size()) {
      if (stats_[tier].failed == 1 && notice_) {
        notice_(fmt::format("{}; reading what {} cannot serve from {} (said once)",
                            status.message(), stats_[tier].name, stats_[tier + 1].name));
      }
      read.failures += fmt::format("{}; then ", said);
      read.tier = tier + 1;
      read.queued = true;
      retries_.push_back(completion.tag);
      return false;
    }
    std::string message = status.message();
    if (!read.failures.empty()) {
      message = fmt::format("{}: no source could serve it: {}{}", ToString(read.request.key),
                            read.failures, said);
    }
    if (!remedy_.empty()) message += "; " + remedy_;
    completion.status = Status(status.code(), std::move(message), status.native_error());
  }
  Forget(completion.tag);
  return true;
}

void TieredExpertSource::Forget(uint64_t tag) {
  const auto found = reads_.find(tag);
  if (found->second.owed_by.has_value()) --owed_[*found->second.owed_by];
  reads_.erase(found);
}

size_t TieredExpertSource::WaitForTiers(std::span<Completion> out,
                                        std::chrono::nanoseconds timeout) {
  const auto busy = static_cast<size_t>(
      std::count_if(in_tier_.begin(), in_tier_.end(), [](size_t reads) { return reads > 0; }));
  PICCHIO_CHECK(busy > 0);  // Or a tier without reads took none.
  do {
    next_wait_ = (next_wait_ + 1) % tiers_.size();
  } while (in_tier_[next_wait_] == 0);
  return ReapTier(next_wait_, out, busy == 1 ? timeout : std::min(timeout, kWaitSlice));
}

void TieredExpertSource::Cancel(uint64_t tag) {
  const auto found = reads_.find(tag);
  if (found == reads_.end()) return;
  found->second.cancelled = true;
  if (!found->second.queued) tiers_[found->second.tier]->Cancel(tag);
}

bool TieredExpertSource::GiveUp(uint64_t tag) {
  const auto found = reads_.find(tag);
  if (found == reads_.end()) return true;
  Cancel(tag);
  Read& read = found->second;
  const bool has_next = read.tier + 1 < tiers_.size();
  if (read.owed_by.has_value()) return has_next;
  read.owed_by = read.tier;
  ++owed_[read.tier];
  if (++stats_[read.tier].given_up == 1 && has_next && notice_) {
    notice_(fmt::format("{}: {} does not answer; reading from {} until it does (said once)",
                        ToString(read.request.key), stats_[read.tier].name,
                        stats_[read.tier + 1].name));
  }
  return has_next;
}

void TieredExpertSource::Promote(uint64_t tag) {
  const auto found = reads_.find(tag);
  if (found == reads_.end()) return;
  found->second.request.priority = ReadPriority::kDemand;
  if (!found->second.queued) tiers_[found->second.tier]->Promote(tag);
}

void TieredExpertSource::Drain() {
  for (const auto& tier : tiers_) tier->Drain();
  std::fill(in_tier_.begin(), in_tier_.end(), 0);
  std::fill(owed_.begin(), owed_.end(), 0);
  reads_.clear();
  retries_.clear();
}

}  // namespace picchio
