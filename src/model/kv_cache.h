// The keys and values of one sequence, F32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "kernels/attention.h"
#include "model/config.h"

namespace picchio {

// Layers that see everything keep a row for every position of the context; sliding layers a ring of
// their window and kSlidingChunk - 1 rows more, so that short rewinds are free. Longer ones restore
// a snapshot of the windows. Rows lie head by head: [num_key_value_heads, capacity, head_dim].
// Move-only; one thread at a time writes, any number read.
class KvCache {
 public:
  // How many rows may be appended to a sliding layer before attention over the first of them.
  static constexpr uint32_t kSlidingChunk = 128;

  // Bytes of a cache for `context` positions, 1 <= context <= ModelConfig::kMaxPositions.
  static uint64_t BytesFor(const ModelConfig& config, uint32_t context);

  // Fails with kResourceExhausted, giving the figures, where the system has no such memory;
  // kInvalidArgument for a context of 0 or beyond ModelConfig::kMaxPositions.
  static Result<KvCache> Create(const ModelConfig& config, uint32_t context);

  uint32_t context() const { return context_; }
  uint32_t length() const { return length_; }  // Positions held: [0, length).
  uint64_t bytes() const { return buffer_.size(); }

  // The sliding layers' windows as they were at a position, to go back there later.
  class Snapshot {
   public:
    uint32_t position() const { return position_; }
    uint64_t bytes() const { return rows_.size() * sizeof(float); }

   private:
    friend class KvCache;
    uint64_t cache_id_ = 0;
    uint64_t epoch_ = 0;
    uint32_t position_ = 0;
    std::vector<float> rows_;
  };

  Snapshot TakeSnapshot() const;
  // Bytes that a snapshot takes at most.
  uint64_t MaxSnapshotBytes() const;
  // Whether Restore would succeed: the snapshot is of this cache, and the positions before it have
  // not been replaced since.
  bool CanRestore(const Snapshot& snapshot) const;
  // Goes back to the snapshot's position. What follows is as if later positions had never been.
  Status Restore(const Snapshot& snapshot);

  // Whether the windows before `position` are still whole; 0 always is.
  bool CanRewind(uint32_t position) const;
  // Drops positions from `position` on. Fails with kInvalidArgument where CanRewind is false.
  Status Rewind(uint32_t position);

  // --- For the forward pass: write rows, attend, and commit when all layers have been through. ---

  // Fails where `count` more positions do not fit the context, or where the windows before the next
  // one are lost (a step that failed midway has written over them).
  Status CheckRoom(uint32_t count) const;
  // How many rows of one step can be written to the layer before attention over the first of them.
  uint32_t ChunkOf(uint32_t layer) const;
  // Writes the key and the value of one position; each [num_key_value_heads * head_dim].
  void Write(uint32_t layer, uint32_t position, const float* key, const float* value);
  KvView View(uint32_t layer, uint32_t kv_head) const;
  void Commit(uint32_t count) { length_ += count; }

 private:
  struct Layer {
    float* keys = nullptr;    // [num_key_value_heads, capacity, head_dim]
    float* values = nullptr;  // alike
    uint32_t window = 0;      // 0: all
    uint32_t capacity = 0;
  };
  // Positions from `position` on were dropped at `epoch`. Kept with ascending positions, so the
  // first cut after an epoch is the lowest.
  struct Cut {
    uint64_t epoch;
    uint32_t position;
  };

  KvCache() = default;

  uint32_t WindowStart(uint32_t position) const;
  void CutAt(uint32_t position);
  // Copies the rows of the sliding layers' windows before `position` to or from `rows`.
  template <typename Copy>
  void ForEachWindowRow(uint32_t position, Copy&& copy) const;

  AlignedBuffer buffer_;
  std::vector<Layer> layers_;
  uint32_t num_heads_ = 0;
  uint32_t head_dim_ = 0;
  uint32_t context_ = 0;
  uint32_t window_ = 0;  // Of all sliding layers; 0 if there are none.
  uint32_t num_sliding_ = 0;
  uint32_t length_ = 0;
  uint32_t valid_from_ = 0;  // First position that the rings still hold.
  uint64_t id_ = 0;
  uint64_t epoch_ = 0;
  std::vector<Cut> cuts_;
};

}  // namespace picchio
