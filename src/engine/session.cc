#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace picchio {
namespace {

bool IsCancelled(const RunHooks& hooks) {
  return hooks.cancel != nullptr && hooks.cancel->load(std::memory_order_relaxed);
}

}  // namespace

double PromptProgress::fraction() const {
  if (positions_total == 0) return 1;
  const double span_done = static_cast<double>(span_positions) * layer / num_layers;
  return (static_cast<double>(positions_done) + span_done) / static_cast<double>(positions_total);
}

Result<Session> Session::Create(ForwardPass& forward, const ExpertCache& experts, uint32_t context,
                                std::function<void()> between_layers) {
  PICCHIO_ASSIGN_OR_RETURN(KvSequence sequence,
                           KvSequence::Create(forward.model().config, context));
  return Session(forward, experts, std::move(sequence), std::move(between_layers));
}

uint64_t Session::BufferBytes(const ModelConfig& config) {
  const uint64_t ids = 2 * uint64_t{config.max_position_embeddings} * sizeof(int32_t);
  return ids + config.vocab_size * sizeof(float) + Sampler::BytesFor(config.vocab_size);
}

int32_t Session::vocab_size() const {
  return static_cast<int32_t>(forward_.model().config.vocab_size);
}

Result<RunStats> Session::Generate(Generation& generation, const RunHooks& hooks) {
  RunStats stats;
  Status status = RunGeneration(generation, hooks, stats);
  if (!status.ok()) {
    // A source may cancel reads on its own account: that would be a failure.
    if (status.code() != Code::kCancelled || !IsCancelled(hooks)) return status;
    const std::string text = generation.Cancel();
    if (!text.empty() && hooks.on_text) PICCHIO_RETURN_IF_ERROR(hooks.on_text(text));
  }
  return stats;
}

Status Session::RunGeneration(Generation& generation, const RunHooks& hooks, RunStats& stats) {
  stats.reused_positions = sequence_.RewindTo(generation.ids());

  const auto receive = [&](const LogitsRow& row) -> Status {
    if (hooks.on_logits) PICCHIO_RETURN_IF_ERROR(hooks.on_logits(row.position, row.logits));
    if (row.position + 1 == generation.ids().size()) {
      last_logits_.assign(row.logits.begin(), row.logits.end());
    }
    return Status::Ok();
  };
  const auto advance = [&](const RunHooks& phase_hooks, PhaseStats& phase) {
    const size_t first_position = hooks.on_logits ? 0 : generation.ids().size() - 1;
    return Advance(generation.ids(), first_position, receive, phase_hooks, phase);
  };
  const auto draw = [&]() -> Status {
    PICCHIO_ASSIGN_OR_RETURN(const std::string text, generation.Accept(last_logits_));
    return !text.empty() && hooks.on_text ? hooks.on_text(text) : Status::Ok();
  };

  {
    const PhaseMeter meter(forward_, experts_, stats.prompt);
    PICCHIO_RETURN_IF_ERROR(advance(hooks, stats.prompt));
    sequence_.MarkTurn();
    if (generation.finished()) return Status::Ok();  // Nothing was to be drawn.
    PICCHIO_RETURN_IF_ERROR(draw());
  }
  const PhaseMeter meter(forward_, experts_, stats.decode);
  const RunHooks decode_hooks{.cancel = hooks.cancel};  // Progress is the prompt's.
  while (!generation.finished()) {
    PICCHIO_RETURN_IF_ERROR(advance(decode_hooks, stats.decode));
    PICCHIO_RETURN_IF_ERROR(draw());
  }
  return Status::Ok();
}

Result<PhaseStats> Session::Score(
    std::span<const int32_t> ids, size_t first_position,
    const std::function<void(uint32_t position, std::span<const float> logits)>& receive,
    const RunHooks& hooks) {
  sequence_.Clear();
  PhaseStats stats;
  const auto receive_row = [&](const LogitsRow& row) {
    receive(row.position, row.logits);
    return Status::Ok();
  };
  {
    const PhaseMeter meter(forward_, experts_, stats);
    PICCHIO_RETURN_IF_ERROR(Advance(ids, first_position, receive_row, hooks, stats));
  }
  return stats;
}

Status Session::Advance(std::span<const int32_t> ids, size_t first_position, LogitsReceiver receive,
                        const RunHooks& hooks, PhaseStats& stats) {
  const uint32_t num_layers = forward_.model().config.num_hidden_layers;
  PromptProgress progress{.positions_total = ids.size() - sequence_.length(),
                          .num_layers = num_layers};
  const auto before_layer = [&](uint32_t layer) -> Status {
    if (IsCancelled(hooks)) return Error(Code::kCancelled, "the run was stopped");
    if (layer == num_layers) return Status::Ok();  // In the head.
    if (between_layers_) between_layers_();
    progress.layer = layer;
    if (hooks.on_progress) hooks.on_progress(progress);
    return Status::Ok();
  };
  const auto receive_wanted = [&](const LogitsRow& row) -> Status {
    return row.position >= first_position ? receive(row) : Status::Ok();
  };
  while (sequence_.length() < ids.size()) {
    const size_t begin = sequence_.length();
    const size_t end = std::min(ids.size(), begin + forward_.options().max_rows);
    SequenceInput input{.kv = &sequence_.kv(), .tokens = ids.subspan(begin, end - begin)};
    input.logits = first_position >= end       ? LogitsWanted::kNone
                   : first_position + 1 == end ? LogitsWanted::kLast
                                               : LogitsWanted::kAll;
    progress.span_positions = end - begin;
    sequence_.BeforeStep(end - begin);
    const Status status = forward_.Step(std::span(&input, 1), receive_wanted, before_layer);
    sequence_.AfterStep(input.tokens);
    PICCHIO_RETURN_IF_ERROR(status);
    stats.tokens += end - begin;
    progress.positions_done += end - begin;
  }
  progress.span_positions = 0;
  progress.layer = 0;
  if (hooks.on_progress) hooks.on_progress(progress);
  return Status::Ok();
}

}  // namespace picchio
