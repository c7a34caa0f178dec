// A set of token ids: what may be drawn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace picchio {

// One thread at a time.
class TokenMask {
 public:
  explicit TokenMask(int32_t num_ids) : words_((static_cast<size_t>(num_ids) + 63) / 64) {}

  // All take ids of [0, num_ids).
  void Allow(int32_t id) { words_[Word(id)] |= Bit(id); }
  void Forbid(int32_t id) { words_[Word(id)] &= ~Bit(id); }
  bool Allows(int32_t id) const { return (words_[Word(id)] & Bit(id)) != 0; }

  void AllowAll() { std::ranges::fill(words_, ~uint64_t{0}); }
  void ForbidAll() { std::ranges::fill(words_, 0); }

 private:
  static uint64_t Bit(int32_t id) { return uint64_t{1} << (static_cast<uint32_t>(id) % 64); }
  size_t Word(int32_t id) const {
    const size_t word = static_cast<size_t>(id) / 64;
    PICCHIO_DCHECK(id >= 0 && word < words_.size());
    return word;
  }

  std::vector<uint64_t> words_;
};

}  // namespace picchio
