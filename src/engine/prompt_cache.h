// The sequences of requests that are over, kept for those that begin like them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>

#include "engine/kv_sequence.h"

namespace picchio {

// Owner thread only.
class PromptCache {
 public:
  // A sequence that is held, and how many of a prompt's tokens it saves. Good until the sequence
  // goes: by Take, Put or ShrinkTo.
  struct Match {
    std::list<KvSequence>::iterator sequence;
    uint32_t positions = 0;  // At least 1.
    // Nothing of it would be lost if it went on as that prompt.
    bool is_whole() const { return positions == sequence->length(); }
  };

  // The sequence that saves most of the prompt, of equals the one that was used last.
  std::optional<Match> Find(std::span<const int32_t> prompt);

  // Takes it over.
  KvSequence Take(const Match& match);
  // A copy of what the prompt shares, for `context` positions; the sequence counts as used. Fails
  // as KvCache::Create does.
  Result<KvSequence> Copy(const Match& match, uint32_t context);

  // Keeps a sequence, as the one that was used last; those whose tokens it begins with go. An empty
  // one, or one that adds nothing to another, is dropped.
  void Put(KvSequence sequence);

  // Until all take no more than `bytes`: gives back what was allocated for positions that were not
  // reached, then drops sequences, both beginning with the one that was used least recently; never
  // `keep`.
  void ShrinkTo(uint64_t bytes, const std::optional<Match>& keep = std::nullopt);

  uint64_t bytes() const { return bytes_; }
  size_t size() const { return sequences_.size(); }

 private:
  void Touch(std::list<KvSequence>::iterator sequence) {
    sequences_.splice(sequences_.begin(), sequences_, sequence);
  }
  void Erase(std::list<KvSequence>::iterator sequence);

  std::list<KvSequence> sequences_;  // The one that was used last is the first.
  uint64_t bytes_ = 0;
};

}  // namespace picchio
