#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/exp.h"
#include "engine/philox.h"

namespace picchio {
namespace {

// How many candidates are ranked at first: with the usual top-p of 0.9 to 0.95 the walk ends within
// the first hundred nearly always.
constexpr size_t kFirstRanked = 256;
constexpr size_t kRankedGrowth = 8;

}  // namespace

Result<Sampler> Sampler::Create(SamplingParams params, int32_t vocabulary_size) {
  PICCHIO_CHECK(vocabulary_size > 0);
  PICCHIO_RETURN_IF_ERROR(Validate(params, vocabulary_size));
  return Sampler(std::move(params), vocabulary_size);
}

void Sampler::NotePrompt(std::span<const int32_t> ids) {
  for (int32_t id : ids) seen_.try_emplace(id, 0);
}

void Sampler::NoteGenerated(int32_t id) { ++seen_[id]; }

Result<int32_t> Sampler::Sample(std::span<const float> logits, uint64_t position,
                                const TokenMask* allowed) {
  PICCHIO_RETURN_IF_ERROR(CollectAdjusted(logits, allowed));
  if (params_.temperature == 0) {
    return std::min_element(candidates_.begin(), candidates_.end(), RanksBefore)->id;
  }
  KeepTopK();
  Weigh();
  KeepTopP();
  KeepMinP();
  return Draw(UniformAt(params_.seed, position));
}

bool Sampler::RanksBefore(const Candidate& a, const Candidate& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.id < b.id;
}

Status Sampler::CollectAdjusted(std::span<const float> logits, const TokenMask* allowed) {
  PICCHIO_CHECK(logits.size() >= static_cast<size_t>(vocabulary_size_));
  candidates_.resize(static_cast<size_t>(vocabulary_size_));
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return Error(Code::kCorrupt, "the logit of token {} is {}, expected a finite number", i,
                   logits[i]);
    }
    candidates_[i] = {.logit = logits[i], .weight = 0, .id = static_cast<int32_t>(i)};
  }
  for (const auto& [id, bias] : params_.logit_bias) {
    candidates_[static_cast<size_t>(id)].logit += bias;
  }
  for (const auto& [id, times_generated] : seen_) {
    if (id < 0 || id >= vocabulary_size_) continue;  // A prompt may hold ids that are never drawn.
    double& logit = candidates_[static_cast<size_t>(id)].logit;
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    if (times_generated > 0) {
      logit -= times_generated * params_.frequency_penalty + params_.presence_penalty;
    }
  }
  std::erase_if(candidates_, [allowed](const Candidate& c) {
    return std::isinf(c.logit) || (allowed != nullptr && !allowed->Allows(c.id));
  });
  if (candidates_.empty()) {
    return Error(Code::kInvalidArgument, "{} every token of the vocabulary",
                 allowed == nullptr ? "logit_bias bans" : "the constraint and logit_bias ban");
  }
  return Status::Ok();
}

void Sampler::KeepTopK() {
  if (params_.top_k == 0 || static_cast<uint64_t>(params_.top_k) >= candidates_.size()) return;
  const auto cut = candidates_.begin() + params_.top_k;
  std::nth_element(candidates_.begin(), cut, candidates_.end(), RanksBefore);
  candidates_.erase(cut, candidates_.end());
  std::sort(candidates_.begin(), candidates_.end(), HasSmallerId);
}

void Sampler::Weigh() {
  const double largest =
      std::min_element(candidates_.begin(), candidates_.end(), RanksBefore)->logit;
  for (Candidate& c : candidates_) c.weight = ExpF64((c.logit - largest) / params_.temperature);
}

void Sampler::KeepTopP() {
  if (params_.top_p == 1) return;
  const size_t last = Rank(params_.top_p * TotalWeight(), /*inclusive=*/true);
  candidates_.resize(last + 1);
  std::sort(candidates_.begin(), candidates_.end(), HasSmallerId);
}

void Sampler::KeepMinP() {
  // The largest weight is exp(0) = 1.
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params_.min_p; });
}

int32_t Sampler::Draw(double u) {
  return candidates_[Rank(u * TotalWeight(), /*inclusive=*/false)].id;
}

double Sampler::TotalWeight() const {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  return total;
}

// Ranks as many candidates as it takes for their weights, summed in rank order, to exceed the
// threshold (inclusive: to reach it), and returns the index of the last of them. Where rounding
// keeps the sum of all below it, that of the last candidate whose weight is not 0.
size_t Sampler::Rank(double threshold, bool inclusive) {
  size_t ranked = 0;
  size_t last_with_weight = 0;
  double sum = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == ranked) {
      ranked = std::min(candidates_.size(), std::max(kFirstRanked, ranked * kRankedGrowth));
      const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(i);
      const auto end = candidates_.begin() + static_cast<ptrdiff_t>(ranked);
      if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), RanksBefore);
      std::sort(begin, end, RanksBefore);
    }
    sum += candidates_[i].weight;
    if (inclusive ? sum >= threshold : sum > threshold) return i;
    if (candidates_[i].weight > 0) last_with_weight = i;
  }
  return last_with_weight;
}

}  // namespace picchio
