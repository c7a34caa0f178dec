#include "engine/prompt_cache.h"

#include <algorithm>
#include <utility>

namespace picchio {
namespace {

bool BeginsWith(const KvSequence& sequence, const KvSequence& beginning) {
  return sequence.length() >= beginning.length() &&
         std::ranges::equal(sequence.ids().first(beginning.length()), beginning.ids());
}

}  // namespace

std::optional<PromptCache::Match> PromptCache::Find(std::span<const int32_t> prompt) {
  std::optional<Match> best;
  for (auto it = sequences_.begin(); it != sequences_.end(); ++it) {
    const uint32_t positions = it->Reusable(prompt);
    if (positions > (best.has_value() ? best->positions : 0)) best = Match{it, positions};
  }
  return best;
}

KvSequence PromptCache::Take(const Match& match) {
  KvSequence sequence = std::move(*match.sequence);
  bytes_ -= sequence.bytes();
  sequences_.erase(match.sequence);
  return sequence;
}

Result<KvSequence> PromptCache::Copy(const Match& match, uint32_t context) {
  Touch(match.sequence);
  return match.sequence->CopyPrefix(match.positions, context);
}

void PromptCache::Put(KvSequence sequence) {
  if (sequence.length() == 0) return;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    const auto held = it++;
    if (BeginsWith(sequence, *held)) {
      Erase(held);
    } else if (BeginsWith(*held, sequence) &&
               held->kv().Reachable(sequence.length()) == sequence.length()) {
      Touch(held);
      return;
    }
  }
  bytes_ += sequence.bytes();
  sequences_.push_front(std::move(sequence));
}

void PromptCache::ShrinkTo(uint64_t bytes, const std::optional<Match>& keep) {
  const auto for_each_while_over = [&](auto&& shrink) {
    for (auto it = sequences_.end(); it != sequences_.begin() && bytes_ > bytes;) {
      --it;
      if (keep.has_value() && keep->sequence == it) continue;
      it = shrink(it);
    }
  };
  for_each_while_over([&](std::list<KvSequence>::iterator it) {
    bytes_ -= it->bytes();
    // Where there is no memory for that it goes as it is.
    (void)it->Resize(it->length());
    bytes_ += it->bytes();
    return it;
  });
  for_each_while_over([&](std::list<KvSequence>::iterator it) {
    const auto next = std::next(it);
    Erase(it);
    return next;
  });
}

void PromptCache::Erase(std::list<KvSequence>::iterator sequence) {
  bytes_ -= sequence->bytes();
  sequences_.erase(sequence);
}

}  // namespace picchio
