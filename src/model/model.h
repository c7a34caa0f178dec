// A model ready to compute: its config, the weights that stay in memory, its rotation.
#pragma once

#include "kernels/rope.h"
#include "model/config.h"
#include "model/dense_weights.h"

namespace picchio {

// Immutable; any thread may read.
struct Model {
  ModelConfig config;
  DenseWeights weights;
  RopeTable rope;

  // Loads the dense weights; fails as LoadDenseWeights does, whose arguments it takes.
  static Result<Model> Open(const TensorDirectory& tensors, ModelConfig config, bool expert_biases,
                            ThreadPool& pool, const LoadedBytes& on_loaded = {});
};

}  // namespace picchio
