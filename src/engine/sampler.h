// From logits to the next token: all in F64, the same token on every machine.
//
// docs/sampling.md is the definition: the order of the steps, of the candidates and of the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/sampling_params.h"
#include "engine/token_mask.h"

namespace picchio {

// The sampler of one sequence: the parameters, and the tokens that the penalties look back on.
// One thread at a time.
class Sampler {
 public:
  // Tokens are drawn from the ids [0, vocabulary_size): those that the tokenizer knows, which may
  // be fewer than the model has rows. Fails as Validate does.
  static Result<Sampler> Create(SamplingParams params, int32_t vocabulary_size);

  // Bytes that one takes at most, when every token of the vocabulary has been seen.
  static uint64_t BytesFor(uint64_t vocabulary_size) {
    constexpr uint64_t kSeenBytes = 40;  // A node of 32, as malloc rounds it up, and its bucket.
    return vocabulary_size * (sizeof(Candidate) + kSeenBytes);
  }

  // Notes tokens of the prompt, which the repeat penalty counts, or a token that was generated,
  // which all three penalties count.
  void NotePrompt(std::span<const int32_t> ids);
  void NoteGenerated(int32_t id);

  // The token for `position`, the place in the sequence that it will take (a prompt of T tokens:
  // T). logits: one for each row of the model's head, at least vocabulary_size; those beyond are
  // not looked at. Changes nothing that a later call could see: the same logits and position give
  // the same token. O(vocabulary) unless the distribution is so flat that a large part of it must
  // be ranked. `allowed`, for ids of the vocabulary, null: all; no other is drawn. Fails (kCorrupt)
  // on a logit that is not finite, (kInvalidArgument) where that or logit_bias bans every token.
  Result<int32_t> Sample(std::span<const float> logits, uint64_t position,
                         const TokenMask* allowed = nullptr);

  int32_t vocabulary_size() const { return vocabulary_size_; }

  const SamplingParams& params() const { return params_; }

 private:
  struct Candidate {
    double logit;   // After bias and penalties.
    double weight;  // exp((logit - largest logit) / temperature).
    int32_t id;
  };

  Sampler(SamplingParams params, int32_t vocabulary_size)
      : params_(std::move(params)), vocabulary_size_(vocabulary_size) {}

  static bool RanksBefore(const Candidate& a, const Candidate& b);
  static bool HasSmallerId(const Candidate& a, const Candidate& b) { return a.id < b.id; }

  // The steps of docs/sampling.md. Each takes and leaves candidates_ in ascending order of ids.
  Status CollectAdjusted(std::span<const float> logits, const TokenMask* allowed);
  void KeepTopK();
  void Weigh();
  void KeepTopP();
  void KeepMinP();
  int32_t Draw(double u);

  double TotalWeight() const;
  size_t Rank(double threshold, bool inclusive);

  SamplingParams params_;
  int32_t vocabulary_size_;
  std::unordered_map<int32_t, uint32_t> seen_;  // Id: how often it was generated; 0: prompt only.
  std::vector<Candidate> candidates_;           // Kept between calls for its memory alone.
};

}  // namespace picchio
