#include "engine/generation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace picchio {
namespace {

Status CheckPrompt(std::span<const int32_t> prompt, int32_t vocab_size, uint32_t context,
                   bool draws) {
  if (prompt.empty()) {
    return Error(Code::kInvalidArgument, "the prompt is empty, expected at least one token");
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocab_size) {
      return Error(Code::kInvalidArgument,
                   "token {} of the prompt has the id {}, but the model's ids are 0 to {}", i,
                   prompt[i], vocab_size - 1);
    }
  }
  if (prompt.size() > context) {
    return Error(
        Code::kInvalidArgument,
        "the prompt has {} tokens, but the context holds {}: shorten the prompt or choose a "
        "larger context",
        prompt.size(), context);
  }
  if (draws && prompt.size() == context) {
    return Error(Code::kInvalidArgument,
                 "the prompt fills the context of {} tokens and leaves no room for an answer: "
                 "shorten the prompt or choose a larger context",
                 context);
  }
  return Status::Ok();
}

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStopId:
      return "stop_id";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kTimeLimit:
      return "time_limit";
    case FinishReason::kFailed:
      return "failed";
  }
  return "unknown";
}

Generation::Generation(std::vector<int32_t> prompt, GenerationOptions options, Sampler sampler,
                       StopStringMatcher stop_strings, const Tokenizer* tokenizer)
    : ids_(std::move(prompt)),
      num_prompt_ids_(ids_.size()),
      options_(std::move(options)),
      sampler_(std::move(sampler)),
      stop_strings_(std::move(stop_strings)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  if (options_.constraint) allowed_.emplace(sampler_.vocabulary_size());
}

Result<Generation> Generation::Create(std::vector<int32_t> prompt, GenerationOptions options,
                                      int32_t vocab_size, uint32_t context,
                                      const Tokenizer* tokenizer) {
  PICCHIO_CHECK(vocab_size > 0);
  const bool draws = options.max_tokens != 0u;
  PICCHIO_RETURN_IF_ERROR(CheckPrompt(prompt, vocab_size, context, draws));
  if (!options.stop_strings.empty() && tokenizer == nullptr) {
    return Error(Code::kInvalidArgument,
                 "stop strings need the model's tokenizer, which is missing");
  }
  // A padded head has rows for ids that are no token.
  const int32_t drawable =
      tokenizer == nullptr ? vocab_size : std::min(vocab_size, tokenizer->vocab_size());
  PICCHIO_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create(options.sampling, drawable));
  PICCHIO_ASSIGN_OR_RETURN(StopStringMatcher stop_strings,
                           StopStringMatcher::Create(options.stop_strings));
  sampler.NotePrompt(prompt);
  Generation generation(std::move(prompt), std::move(options), std::move(sampler),
                        std::move(stop_strings), tokenizer);
  const uint64_t room = context - generation.num_prompt_ids_;
  const uint64_t most = generation.options_.max_tokens.value_or(UINT64_MAX);
  generation.ends_with_context_ = most > room;
  generation.max_ids_ = generation.num_prompt_ids_ + std::min(most, room);
  if (!draws) generation.reason_ = FinishReason::kMaxTokens;
  return generation;
}

Result<int32_t> Generation::Draw(std::span<const float> logits) {
  if (!options_.constraint) return sampler_.Sample(logits, ids_.size());
  allowed_->ForbidAll();
  PICCHIO_RETURN_IF_ERROR(options_.constraint(generated(), *allowed_));
  return sampler_.Sample(logits, ids_.size(), &*allowed_);
}

Result<std::string> Generation::Accept(std::span<const float> logits) {
  PICCHIO_CHECK(!finished());
  PICCHIO_ASSIGN_OR_RETURN(const int32_t id, Draw(logits));
  if (options_.top_logprobs.has_value()) {
    const auto drawable = static_cast<size_t>(sampler_.vocabulary_size());
    last_logprobs_ = LogprobsOf(logits.first(drawable), id, *options_.top_logprobs);
  }
  ids_.push_back(id);
  sampler_.NoteGenerated(id);
  std::string text;
  if (std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end()) {
    reason_ = FinishReason::kStopId;
  } else {
    if (decoder_.has_value()) text = stop_strings_.Append(decoder_->Push(id));
    if (stop_strings_.stopped()) {
      reason_ = FinishReason::kStopString;
    } else if (ids_.size() == max_ids_) {
      reason_ = ends_with_context_ ? FinishReason::kContext : FinishReason::kMaxTokens;
    }
  }
  if (finished()) text += Flush();
  return text;
}

std::string Generation::Cancel() {
  if (finished()) return {};
  reason_ = FinishReason::kCancelled;
  return Flush();
}

std::string Generation::Flush() {
  if (!decoder_.has_value()) return {};
  std::string text = stop_strings_.Append(decoder_->Finish());
  // The last character, broken as it is, may complete a stop string.
  if (stop_strings_.stopped()) reason_ = FinishReason::kStopString;
  return text + stop_strings_.Finish();
}

}  // namespace picchio
