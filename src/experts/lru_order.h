// The order in which slots were last used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace picchio {

// A doubly linked list over the numbers [0, size), each in it once, oldest first. All calls but
// OldestWhere are O(1) and nothing allocates after construction. One thread at a time.
class LruOrder {
 public:
  // At first in ascending order: 0 is the oldest.
  explicit LruOrder(uint32_t size) : links_(size_t{size} + 1) {
    for (uint32_t i = 0; i <= size; ++i) {
      links_[i] = {.older = i == 0 ? size : i - 1, .newer = i == size ? 0 : i + 1};
    }
  }

  void MakeNewest(uint32_t i) { Move(i, links_[head()].older); }
  void MakeOldest(uint32_t i) { Move(i, head()); }

  // The oldest for which `accept(i)` is true, if any.
  template <typename Predicate>
  std::optional<uint32_t> OldestWhere(Predicate accept) const {
    for (uint32_t i = links_[head()].newer; i != head(); i = links_[i].newer) {
      if (accept(i)) return i;
    }
    return std::nullopt;
  }

 private:
  struct Link {
    uint32_t older;
    uint32_t newer;
  };

  // The list is a ring; the last link is its head, between the newest and the oldest.
  uint32_t head() const { return static_cast<uint32_t>(links_.size() - 1); }

  // Takes `i` out and puts it behind `after`.
  void Move(uint32_t i, uint32_t after) {
    PICCHIO_DCHECK(i < head());
    if (i == after) return;
    links_[links_[i].older].newer = links_[i].newer;
    links_[links_[i].newer].older = links_[i].older;
    links_[i] = {.older = after, .newer = links_[after].newer};
    links_[links_[i].newer].older = i;
    links_[after].newer = i;
  }

  std::vector<Link> links_;
};

}  // namespace picchio
