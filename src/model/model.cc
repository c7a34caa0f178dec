#include "model/model.h"

#include <utility>

namespace picchio {
namespace {

RopeTable RopeOf(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  if (!rope.yarn) return {rope.theta, config.head_dim};
  return {rope.theta,
          config.head_dim,
          {.factor = rope.factor,
           .original_max_positions = static_cast<double>(rope.original_max_position_embeddings),
           .beta_fast = rope.beta_fast,
           .beta_slow = rope.beta_slow,
           .truncate = rope.truncate,
           .attention_factor = rope.attention_factor}};
}

}  // namespace

Result<Model> Model::Open(const TensorDirectory& tensors, ModelConfig config, bool expert_biases,
                          ThreadPool& pool, const LoadedBytes& on_loaded) {
  PICCHIO_ASSIGN_OR_RETURN(DenseWeights weights,
                           LoadDenseWeights(tensors, config, expert_biases, pool, on_loaded));
  RopeTable rope = RopeOf(config);
  return Model{std::move(config), std::move(weights), std::move(rope)};
}

}  // namespace picchio
