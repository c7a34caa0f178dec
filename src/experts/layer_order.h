// The layers that have experts, which come round in order, pass by pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace picchio {

// Layers without experts do not count, so layers get their indexes, from 0 on, as they are met. One
// thread at a time; allocates only for a new layer.
class LayerOrder {
 public:
  uint32_t IndexOf(int layer) {
    const auto [at, is_new] = indexes_.try_emplace(layer, static_cast<uint32_t>(place_.size()));
    if (is_new) {
      place_.emplace_back();
      size_t place = 0;
      for (const auto& [_, idx] : indexes_) place_[idx] = place++;
    }
    return at->second;
  }

  size_t num_layers() const { return place_.size(); }

  // How many layers come before the turn of layer `idx` where it is that of `now`; its own next
  // turn is a whole pass away. Both are indexes.
  size_t LayersUntil(size_t idx, size_t now) const {
    return (place_[idx] + 2 * num_layers() - place_[now] - 1) % num_layers();
  }

 private:
  std::map<int, uint32_t> indexes_;  // By layer.
  std::vector<size_t> place_;        // In a pass, by index.
};

}  // namespace picchio
