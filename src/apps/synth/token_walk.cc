#include "apps/synth/token_walk.h"

#include <cmath>
#include <utility>

#include "apps/synth/random_stream.h"

namespace picchio {
namespace {

constexpr uint64_t kOrderStream = 1;
constexpr uint64_t kEmbeddingStream = 2;

}  // namespace

TokenWalk::TokenWalk(std::vector<int32_t> tokens, uint32_t vocab_size, size_t size,
                     double correlation, uint64_t seed)
    : order_(std::move(tokens)),
      place_of_(vocab_size, -1),
      size_(size),
      embeddings_(order_.size() * size) {
  RandomStream shuffle(seed, kOrderStream);
  for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[shuffle.Below(i + 1)]);
  for (size_t i = 0; i < order_.size(); ++i) {
    place_of_[static_cast<size_t>(order_[i])] = static_cast<int32_t>(i);
  }
  RandomStream random(seed, kEmbeddingStream);
  random.FillNormal(embeddings_, 1);
  const auto rho = static_cast<float>(correlation);
  const auto fresh = static_cast<float>(std::sqrt(1 - correlation * correlation));
  for (size_t i = size; i < embeddings_.size(); ++i) {
    embeddings_[i] = rho * embeddings_[i - size] + fresh * embeddings_[i];
  }
}

std::span<const float> TokenWalk::Row(int32_t token, size_t back) const {
  const int32_t place = place_of_[static_cast<size_t>(token)];
  if (place < 0) return {};
  const size_t at = (static_cast<size_t>(place) + order_.size() - back) % order_.size();
  return {embeddings_.data() + at * size_, size_};
}

}  // namespace picchio
