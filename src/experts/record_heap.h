// Records in order of a key, the least at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "experts/eviction_policy.h"

namespace picchio {

// A binary heap that knows where each record lies. All calls are O(log n); Push allocates only
// where there are more records than ever before, or one with a higher number. One thread at a time.
class RecordHeap {
 public:
  // The record must not be in it. Among equal keys the order is that of the calls, as ever it
  // falls: the same calls give the same order.
  void Push(RecordId record, double key) {
    if (record >= place_.size()) place_.resize(size_t{record} + 1, kNowhere);
    PICCHIO_DCHECK(place_[record] == kNowhere);
    entries_.push_back({key, record});
    SiftUp(entries_.size() - 1);
  }

  // The record must be in it.
  void Remove(RecordId record) {
    const size_t at = place_[record];
    PICCHIO_DCHECK(at != kNowhere);
    place_[record] = kNowhere;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    entries_[at] = last;
    place_[last.record] = static_cast<uint32_t>(at);
    SiftDown(SiftUp(at));
  }

  bool empty() const { return entries_.empty(); }
  RecordId top() const { return entries_.front().record; }
  double top_key() const { return entries_.front().key; }

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  struct Entry {
    double key;
    RecordId record;
  };

  void Put(size_t at, Entry entry) {
    entries_[at] = entry;
    place_[entry.record] = static_cast<uint32_t>(at);
  }

  size_t SiftUp(size_t at) {
    const Entry entry = entries_[at];
    for (; at > 0 && entry.key < entries_[(at - 1) / 2].key; at = (at - 1) / 2) {
      Put(at, entries_[(at - 1) / 2]);
    }
    Put(at, entry);
    return at;
  }

  void SiftDown(size_t at) {
    const Entry entry = entries_[at];
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= entries_.size()) break;
      if (child + 1 < entries_.size() && entries_[child + 1].key < entries_[child].key) ++child;
      if (entry.key <= entries_[child].key) break;
      Put(at, entries_[child]);
      at = child;
    }
    Put(at, entry);
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> place_;  // By record.
};

// The element of `record`, made if it is not there yet.
template <typename T>
T& At(std::vector<T>& by_record, RecordId record) {
  if (record >= by_record.size()) by_record.resize(size_t{record} + 1);
  return by_record[record];
}

}  // namespace picchio
