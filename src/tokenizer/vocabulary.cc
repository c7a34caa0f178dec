#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace picchio {

Status Vocabulary::Add(int64_t id, std::string_view bytes) {
  PICCHIO_CHECK(!bytes.empty());
  if (id < 0 || id >= kMaxTokens) {
    return Error(Code::kCorrupt, "token id {} is outside of 0 to {}",
                 id < std::numeric_limits<int64_t>::max() ? std::to_string(id) : "2^63 or more",
                 kMaxTokens - 1);
  }
  if (Has(id)) return Error(Code::kCorrupt, "two tokens have the id {}", id);
  if (bytes_.size() + bytes.size() > 1_GiB) {
    return Error(Code::kUnsupported, "the tokens have more than 1 GiB of text");
  }
  if (id >= size()) places_.resize(static_cast<size_t>(id) + 1);
  places_[static_cast<size_t>(id)] = {static_cast<uint32_t>(bytes_.size()),
                                      static_cast<uint32_t>(bytes.size())};
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return Status::Ok();
}

void Vocabulary::MakeFindable(int32_t id) {
  if (2 * ++num_findable_ > slots_.size()) {  // At most half full, so that searches are short.
    const std::vector<int32_t> old =
        std::exchange(slots_, std::vector<int32_t>(std::max<size_t>(16, 2 * slots_.size()), kNone));
    for (const int32_t moved : old) {
      if (moved != kNone) slots_[SlotOf(Bytes(moved))] = moved;
    }
  }
  int32_t& slot = slots_[SlotOf(Bytes(id))];
  PICCHIO_CHECK(slot == kNone);
  slot = id;
}

std::string_view Vocabulary::Bytes(int64_t id) const {
  if (!Has(id)) return {};
  const Place& place = places_[static_cast<size_t>(id)];
  return {bytes_.data() + place.offset, place.length};
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  return slots_.empty() ? kNone : slots_[SlotOf(bytes)];
}

// Where `bytes` are in the table, or the free slot where they would go.
size_t Vocabulary::SlotOf(std::string_view bytes) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(bytes) & mask;
  while (slots_[slot] != kNone && Bytes(slots_[slot]) != bytes) slot = (slot + 1) & mask;
  return slot;
}

}  // namespace picchio
