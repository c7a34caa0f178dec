#include "engine/kv_sequence.h"

#include <algorithm>

#include "base/check.h"

namespace picchio {
namespace {

// Long prompts share their beginnings with others, at places that nobody knows in advance; to run
// so many positions again takes a step or two.
constexpr uint32_t kCheckpointDistance = 512;

}  // namespace

Result<KvSequence> KvSequence::Create(const ModelConfig& config, uint32_t context) {
  PICCHIO_ASSIGN_OR_RETURN(KvCache kv, KvCache::Create(config, context));
  return KvSequence(std::move(kv), {});
}

uint32_t KvSequence::Reusable(std::span<const int32_t> prompt) const {
  if (prompt.empty()) return 0;
  const auto [held_end, prompt_end] = std::ranges::mismatch(ids_, prompt.first(prompt.size() - 1));
  return kv_.Reachable(static_cast<uint32_t>(held_end - ids_.begin()));
}

uint32_t KvSequence::RewindTo(std::span<const int32_t> prompt) {
  CutTo(Reusable(prompt));
  return length();
}

void KvSequence::Clear() { CutTo(0); }

void KvSequence::CutTo(uint32_t position) { ids_.resize(kv_.Rewind(position)); }

void KvSequence::BeforeStep(size_t count) {
  // A longer step writes over the rows of the sliding layers that it began with.
  if (count > KvCache::kSlidingChunk || length() - kv_.last_checkpoint() >= kCheckpointDistance) {
    kv_.KeepCheckpoint(length());
  }
}

void KvSequence::AfterStep(std::span<const int32_t> tokens) {
  if (length() == ids_.size() + tokens.size()) {
    ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  } else {
    CutTo(length());
  }
}

void KvSequence::MarkTurn() {
  // The last token's logits are wanted again when the same prompt comes once more.
  if (length() > 0) kv_.KeepCheckpoint(kv_.Reachable(length() - 1));
}

Result<KvSequence> KvSequence::CopyPrefix(uint32_t position, uint32_t context) const {
  PICCHIO_ASSIGN_OR_RETURN(KvCache kv, kv_.CopyPrefix(position, context));
  std::vector<int32_t> ids(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(kv.length()));
  return KvSequence(std::move(kv), std::move(ids));
}

}  // namespace picchio
