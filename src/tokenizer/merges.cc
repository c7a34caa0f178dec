#include "tokenizer/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace picchio {
namespace {

// The finaliser of MurmurHash3: pairs of small numbers spread over the table.
uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
  return x ^ x >> 33;
}

}  // namespace

Merges::Merges(std::span<const int32_t, 256> byte_ids, size_t expected)
    : slots_(std::bit_ceil(std::max<size_t>(16, 2 * expected))) {
  std::copy(byte_ids.begin(), byte_ids.end(), byte_ids_);
}

Status Merges::Add(int32_t left, int32_t right, int32_t merged) {
  if (2 * (size_t{num_merges_} + 1) > slots_.size()) Grow();
  const uint64_t pair = PairOf(left, right);
  Merge& slot = slots_[SlotOf(pair)];
  if (slot.pair == pair)
    return Error(Code::kCorrupt, "the same pair is merged at rank {}", slot.rank);
  slot = {pair, num_merges_++, merged};
  return Status::Ok();
}

void Merges::Grow() {
  const std::vector<Merge> old = std::exchange(slots_, std::vector<Merge>(2 * slots_.size()));
  for (const Merge& merge : old) {
    if (merge.pair != kFree) slots_[SlotOf(merge.pair)] = merge;
  }
}

size_t Merges::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = Mix(pair) & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != kFree) slot = (slot + 1) & mask;
  return slot;
}

void Merges::Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  PICCHIO_CHECK(piece.size() <= 1_GiB);
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  const auto count = static_cast<uint32_t>(piece.size());
  if (count == 0) return;

  symbols.resize(count);
  heap.clear();
  for (uint32_t at = 0; at < count; ++at) {
    symbols[at].id = byte_ids_[static_cast<uint8_t>(piece[at])];
    symbols[at].previous = at == 0 ? Scratch::kEnd : at - 1;
    symbols[at].next = at + 1;
  }
  symbols[count - 1].next = Scratch::kEnd;

  // Notes the merge of the symbol at `at` with the one after it; true if there is one.
  const auto note_merge = [&](uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank = kNoRank;
    if (symbol.next == Scratch::kEnd) return false;
    const Merge& merge = slots_[SlotOf(PairOf(symbol.id, symbols[symbol.next].id))];
    if (merge.pair == kFree) return false;
    symbol.rank = merge.rank;
    symbol.merged = merge.merged;
    return true;
  };
  const auto entry = [&](uint32_t at) { return uint64_t{symbols[at].rank} << 32 | at; };

  for (uint32_t at = 0; at < count; ++at) {
    if (note_merge(at)) heap.push_back(entry(at));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    auto& symbol = symbols[at];
    if (symbol.rank != top >> 32) continue;  // Stale: the pair is not there any more.

    auto& eaten = symbols[symbol.next];
    symbol.id = symbol.merged;
    symbol.next = eaten.next;
    eaten.rank = kNoRank;
    if (symbol.next != Scratch::kEnd) symbols[symbol.next].previous = at;
    for (const uint32_t changed : {symbol.previous, at}) {
      if (changed == Scratch::kEnd || !note_merge(changed)) continue;
      heap.push_back(entry(changed));
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  for (uint32_t at = 0; at != Scratch::kEnd; at = symbols[at].next) out.push_back(symbols[at].id);
}

}  // namespace picchio
