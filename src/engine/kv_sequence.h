// The tokens that went through the model, together with the KV cache that holds them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/kv_cache.h"

namespace picchio {

// Keeps both in step, and checkpoints where a later sequence will probably come back to. Who runs a
// step calls BeforeStep, then the step over kv(), then AfterStep, whatever came of it. Move-only;
// one thread at a time.
class KvSequence {
 public:
  // Empty. Fails as KvCache::Create does.
  static Result<KvSequence> Create(const ModelConfig& config, uint32_t context);

  // Of the positions [0, length()).
  std::span<const int32_t> ids() const { return ids_; }
  uint32_t length() const { return kv_.length(); }
  uint32_t context() const { return kv_.context(); }
  uint64_t bytes() const { return kv_.bytes(); }
  KvCache& kv() { return kv_; }

  // How many tokens of `prompt` need not be run: of those that both begin with, as many as can be
  // gone back to; never the last of the prompt, whose logits are wanted.
  uint32_t Reusable(std::span<const int32_t> prompt) const;
  // Goes back to them, and returns their number. All that follows is the same to the bit as for a
  // sequence that was run anew.
  uint32_t RewindTo(std::span<const int32_t> prompt);
  // Drops all.
  void Clear();

  // The step's tokens are the next `count`.
  void BeforeStep(size_t count);
  // Takes the tokens over if the step has moved the cache on; else sees to it that the next step
  // finds the cache whole, which may cost positions where BeforeStep was not called.
  void AfterStep(std::span<const int32_t> tokens);
  // All of a prompt is through: the next turn, or the same one again, begins here.
  void MarkTurn();

  // KvCache's, with the tokens.
  Status Resize(uint32_t context) { return kv_.Resize(context); }
  Result<KvSequence> CopyPrefix(uint32_t position, uint32_t context) const;

 private:
  KvSequence(KvCache kv, std::vector<int32_t> ids) : kv_(std::move(kv)), ids_(std::move(ids)) {}

  void CutTo(uint32_t position);

  KvCache kv_;
  std::vector<int32_t> ids_;
};

}  // namespace picchio
