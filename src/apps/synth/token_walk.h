// The way of a synthetic model through its vocabulary: from each token greedy generation goes to
// one other, in a circle through all of them, so that a run neither repeats nor ends itself.
//
// Embeddings along the circle are a stationary chain, e' = rho e + sqrt(1 - rho^2) n with n of
// independent unit normals; the head's row of a token is the embedding of the one before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace picchio {

class TokenWalk {
 public:
  // Through `tokens`, at least one, in an order that follows from the seed. `size` is that of an
  // embedding, `correlation` rho, from 0 to below 1.
  TokenWalk(std::vector<int32_t> tokens, uint32_t vocab_size, size_t size, double correlation,
            uint64_t seed);

  // The circle, from an arbitrary token on.
  std::span<const int32_t> order() const { return order_; }

  // [size]; empty where the walk does not come to the token.
  std::span<const float> Embedding(int32_t token) const { return Row(token, 0); }
  // That of the token before it.
  std::span<const float> PreviousEmbedding(int32_t token) const { return Row(token, 1); }

 private:
  std::span<const float> Row(int32_t token, size_t back) const;

  std::vector<int32_t> order_;
  std::vector<int32_t> place_of_;  // [vocab_size]: in order_, or -1.
  size_t size_;
  std::vector<float> embeddings_;  // [order_.size(), size]
};

}  // namespace picchio
