// Byte-pair encoding of one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

// The merges of a byte-level BPE in the order of their ranks. May be used by any number of threads
// at once, each with a scratch of its own.
class Merges {
 public:
  // What a call of Encode works on; kept by the caller so that many short pieces share its memory.
  class Scratch;

  // `byte_ids`: the token of each single byte. `expected` merges will be added, a hint.
  explicit Merges(std::span<const int32_t, 256> byte_ids, size_t expected = 0);

  // The next rank: where `left` stands before `right`, both may become `merged`. Refuses a pair
  // that was added before. The ids are tokens' (not negative).
  Status Add(int32_t left, int32_t right, int32_t merged);

  // Appends the tokens of `piece`: its bytes, merged pair by pair, always the pair of the lowest
  // rank, the leftmost of several (Sennrich et al. 2016, section 3.2). O(n log n) time.
  // `piece` has at most 2^30 bytes.
  void Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

 private:
  friend class Scratch;

  struct Merge {
    uint64_t pair = kFree;
    uint32_t rank = 0;
    int32_t merged = 0;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  static uint64_t PairOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t pair) const;
  void Grow();

  int32_t byte_ids_[256];
  std::vector<Merge> slots_;  // Hash table; a power of two, at most half full.
  uint32_t num_merges_ = 0;
};

// The symbols that a piece consists of so far, as a linked list over the piece's bytes, and the
// merges that wait, as a heap. Entries of the heap that a neighbour's merge made stale are dropped
// when they come up, so no entry is ever searched for.
class Merges::Scratch {
 private:
  friend class Merges;

  static constexpr uint32_t kEnd = ~uint32_t{0};

  struct Symbol {
    int32_t id;
    uint32_t previous;  // kEnd before the first.
    uint32_t next;      // kEnd after the last.
    uint32_t rank;      // Of the merge with the next symbol, kNoRank where there is none.
    int32_t merged;     // What that merge makes.
  };

  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // rank << 32 | position, smallest first.
};

}  // namespace picchio
