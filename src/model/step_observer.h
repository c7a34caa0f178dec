// A window into a step, and a hand on its routing, for tests that hold the forward pass against
// reference values.
#pragma once

#include <cstdint>
#include <span>

namespace picchio {

// All rows of a step, in the order of its sequences and their tokens. Called by the thread that
// called Step, once for every layer that has such a value.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // q: [rows, num_attention_heads, head_dim], k and v: [rows, num_key_value_heads, head_dim], q and
  // k after norm and rotation; attn_out: [rows, hidden_size], what is added to the residual stream.
  virtual void OnAttention(uint32_t /*layer*/, std::span<const float> /*q*/,
                           std::span<const float> /*k*/, std::span<const float> /*v*/,
                           std::span<const float> /*attn_out*/) {}
  // logits: [rows, num_experts], bias included; ids and weights: [rows, experts_per_token] by rank.
  // What the observer writes into ids (each below num_experts) and weights is what the step goes
  // by.
  virtual void OnRouting(uint32_t /*layer*/, std::span<const float> /*logits*/,
                         std::span<uint32_t> /*ids*/, std::span<float> /*weights*/) {}
  // [rows, hidden_size]: what the MLP half adds to the residual stream.
  virtual void OnMlp(uint32_t /*layer*/, std::span<const float> /*mlp_out*/) {}
  // [rows, hidden_size]: the residual stream after the block.
  virtual void OnHidden(uint32_t /*layer*/, std::span<const float> /*hidden*/) {}
};

}  // namespace picchio
