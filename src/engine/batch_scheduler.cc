#include "engine/batch_scheduler.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "engine/session.h"
#include "engine/step_plan.h"

namespace picchio {

uint64_t BatchScheduler::BytesFor(const ModelConfig& config, const Options& options) {
  return options.kv_bytes + options.max_sequences * Session::BufferBytes(config);
}

Result<std::unique_ptr<BatchScheduler>> BatchScheduler::Create(ForwardPass& forward,
                                                               const ExpertCache& experts,
                                                               const Tokenizer* tokenizer,
                                                               Options options) {
  const ModelConfig& config = forward.model().config;
  if (options.context == 0 || options.context > ModelConfig::kMaxPositions) {
    return Error(Code::kInvalidArgument, "a context of {} positions, expected 1 to {}",
                 options.context, ModelConfig::kMaxPositions);
  }
  if (options.max_sequences == 0 || options.prefill_span == 0) {
    return Error(Code::kInvalidArgument,
                 "{} sequences at a time and a prefill span of {}, expected at least 1 of both",
                 options.max_sequences, options.prefill_span);
  }
  if (forward.options().max_rows < 2) {
    return Error(Code::kInvalidArgument,
                 "steps of {} tokens leave no room for a prompt beside an answer, expected 2",
                 forward.options().max_rows);
  }
  const uint64_t least = KvCache::BytesFor(config, options.context);
  if (options.kv_bytes < least) {
    return Error(Code::kInvalidArgument,
                 "{} bytes for keys and values, but a context of {} positions takes {}: choose a "
                 "smaller context",
                 options.kv_bytes, options.context, least);
  }
  return std::unique_ptr<BatchScheduler>(
      new BatchScheduler(forward, experts, tokenizer, std::move(options)));
}

Result<RequestId> BatchScheduler::Submit(ServedRequest served, EventSink on_event) {
  const ModelConfig& config = forward_.model().config;
  if (served.choices.empty() || served.choices.size() > options_.max_sequences) {
    return Error(Code::kInvalidArgument, "{} choices, expected 1 to {}", served.choices.size(),
                 options_.max_sequences);
  }
  auto request = std::make_unique<Request>();
  request->on_event = std::move(on_event);
  for (GenerationOptions& options : served.choices) {
    // A prompt alone needs no room for what is drawn; the last token drawn is never run.
    const uint64_t answer = options.max_tokens.value_or(UINT64_MAX);
    const uint64_t room =
        options_.context - std::min<uint64_t>(served.prompt.size(), options_.context);
    request->positions =
        std::max(request->positions,
                 static_cast<uint32_t>(options_.context - room + std::min(answer, room)));
    PICCHIO_ASSIGN_OR_RETURN(
        Generation generation,
        Generation::Create(served.prompt, std::move(options),
                           static_cast<int32_t>(config.vocab_size), options_.context, tokenizer_));
    request->choices.emplace_back(std::move(generation));
  }
  request->bytes_per_choice = KvCache::BytesFor(config, request->positions);
  if (request->choices.size() > options_.kv_bytes / request->bytes_per_choice) {
    return Error(
        Code::kInvalidArgument,
        "{} choices of up to {} tokens each do not fit the memory for keys and values: ask "
        "for {} choices or a smaller max_tokens",
        request->choices.size(), request->positions, options_.kv_bytes / request->bytes_per_choice);
  }
  request->submitted = options_.now();
  if (served.time_limit.has_value()) request->deadline = request->submitted + *served.time_limit;

  const std::scoped_lock lock(mutex_);
  if (stop_at_.has_value()) {
    return Error(Code::kUnavailable, "the server is shutting down and takes no more requests");
  }
  if (queue_.size() >= options_.max_queued) {
    ++refused_;
    return Error(Code::kResourceExhausted, "{} requests are waiting already: try again later",
                 queue_.size());
  }
  ++accepted_;
  const RequestId id = ++last_id_;
  request->id = id;
  requests_.emplace(id, request.get());
  queue_.push_back(std::move(request));
  wake_.notify_all();
  return id;
}

void BatchScheduler::Cancel(RequestId id) {
  const std::scoped_lock lock(mutex_);
  const auto found = requests_.find(id);
  if (found != requests_.end()) found->second->leave = true;
}

void BatchScheduler::Stop(std::chrono::milliseconds grace) {
  const Clock::time_point at = options_.now() + grace;
  const std::scoped_lock lock(mutex_);
  stop_at_ = std::min(at, stop_at_.value_or(at));
  wake_.notify_all();
}

void BatchScheduler::Run() {
  while (true) {
    if (RunStep()) continue;
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !queue_.empty() || stop_at_.has_value(); });
    // Nothing runs: what is in the queue begins with the next step.
    if (queue_.empty()) return;
  }
}

void BatchScheduler::RunUntilIdle() {
  while (RunStep()) {
  }
}

bool BatchScheduler::RunStep() {
  CheckTimes();
  EndLeaving();
  Admit();
  const std::vector<Part> parts = PlanParts();
  if (!parts.empty()) RunParts(parts);
  RemoveEnded();
  PublishStats();
  return !parts.empty();
}

void BatchScheduler::CheckTimes() {
  const Clock::time_point now = options_.now();
  std::vector<std::unique_ptr<Request>> leaving;
  {
    const std::scoped_lock lock(mutex_);
    const bool stop = stop_at_.has_value() && now >= *stop_at_;
    const auto check = [&](Request& request) {
      if (request.leave) return;
      request.shut_down = stop;
      request.timed_out = !stop && request.deadline.has_value() && now >= *request.deadline;
      if (request.shut_down || request.timed_out) request.leave = true;
    };
    for (const auto& request : running_) check(*request);
    for (const auto& request : queue_) check(*request);
    const auto first_leaving = std::stable_partition(
        queue_.begin(), queue_.end(), [](const auto& request) { return !request->leave; });
    std::move(first_leaving, queue_.end(), std::back_inserter(leaving));
    queue_.erase(first_leaving, queue_.end());
  }
  for (const auto& request : leaving) Leave(*request);
}

void BatchScheduler::EndLeaving() {
  for (const auto& request : running_) {
    if (request->leave) Leave(*request);
  }
  RemoveEnded();
}

void BatchScheduler::Leave(Request& request) {
  if (request.shut_down) {
    EndAll(request, FinishReason::kFailed,
           Error(Code::kUnavailable, "the server is shutting down: the answer is not complete"));
  } else {
    EndAll(request, request.timed_out ? FinishReason::kTimeLimit : FinishReason::kCancelled, {});
  }
}

void BatchScheduler::Admit() {
  while (true) {
    Request* request = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      if (queue_.empty() || !HasRoom(*queue_.front())) return;
      request = queue_.front().get();
      running_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    Begin(*request);
  }
}

bool BatchScheduler::HasRoom(const Request& request) const {
  const size_t n = request.choices.size();
  return num_running_ + n <= options_.max_sequences &&
         running_bytes_ + n * request.bytes_per_choice <= options_.kv_bytes;
}

void BatchScheduler::Begin(Request& request) {
  request.begun = true;
  request.queued = options_.now() - request.submitted;
  num_running_ += request.choices.size();
  running_bytes_ += request.choices.size() * request.bytes_per_choice;
  auto sequence = SequenceFor(request);
  if (!sequence.has_value()) return EndAll(request, FinishReason::kFailed, sequence.error());
  Choice& first = request.choices.front();
  first.sequence = std::move(sequence).value();
  request.reused_tokens = first.sequence->length();
  counts_.prompt_tokens += first.generation.num_prompt_ids();
  counts_.reused_tokens += request.reused_tokens;
}

Result<KvSequence> BatchScheduler::SequenceFor(const Request& request) {
  const std::span<const int32_t> prompt = request.choices.front().generation.ids();
  const uint64_t room = options_.kv_bytes - running_bytes_;  // For all that is kept.
  auto match = prompts_.Find(prompt);
  if (match.has_value() && !match->is_whole()) {
    // Somebody else may come back to the rest of it, if there is room for both.
    prompts_.ShrinkTo(room, match);
    if (prompts_.bytes() <= room) return prompts_.Copy(*match, request.positions);
  }
  if (!match.has_value()) {
    prompts_.ShrinkTo(room);
    return KvSequence::Create(forward_.model().config, request.positions);
  }
  KvSequence sequence = prompts_.Take(*match);
  prompts_.ShrinkTo(room);
  sequence.RewindTo(prompt);
  PICCHIO_RETURN_IF_ERROR(sequence.Resize(request.positions));
  return sequence;
}

std::vector<BatchScheduler::Part> BatchScheduler::PlanParts() {
  std::vector<Part> parts;
  std::vector<StepCandidate> candidates;
  for (const auto& request : running_) {
    for (Choice& choice : request->choices) {
      if (!choice.sequence.has_value()) continue;
      const Generation& generation = choice.generation;
      candidates.push_back({.pending = generation.ids().size() - choice.sequence->length(),
                            .decoding = !generation.generated().empty(),
                            .last_step = choice.last_step});
      parts.push_back({request.get(), &choice, 0});
    }
  }
  const std::vector<size_t> rows = PlanStep(
      candidates, {.max_rows = forward_.options().max_rows, .prefill_span = options_.prefill_span});
  for (size_t i = 0; i < parts.size(); ++i) parts[i].count = rows[i];
  std::erase_if(parts, [](const Part& part) { return part.count == 0; });
  return parts;
}

void BatchScheduler::RunParts(std::span<const Part> parts) {
  const Status status = StepParts(parts);
  if (status.ok()) {
    for (const Part& part : parts) Draw(*part.request, *part.choice);
  } else if (parts.size() > 1) {
    for (const Part& part : parts) {
      if (!part.choice->over && !part.request->leave) RunParts({&part, 1});
    }
  } else if (Request& request = *parts.front().request;
             parts.front().choice->generation.generated().empty()) {
    EndAll(request, FinishReason::kFailed, status);
  } else {
    End(request, *parts.front().choice, {}, FinishReason::kFailed, status);
  }
}

Status BatchScheduler::StepParts(std::span<const Part> parts) {
  ++num_steps_;
  std::vector<SequenceInput> inputs;
  for (const Part& part : parts) {
    KvSequence& sequence = *part.choice->sequence;
    const auto pending = part.choice->generation.ids().subspan(sequence.length());
    const bool draws = std::ranges::any_of(
        part.request->choices, [](const Choice& one) { return !one.generation.finished(); });
    sequence.BeforeStep(part.count);
    inputs.push_back({.kv = &sequence.kv(),
                      .tokens = pending.first(part.count),
                      .logits = part.count == pending.size() && draws ? LogitsWanted::kLast
                                                                      : LogitsWanted::kNone,
                      .leave = &part.request->leave});
    part.choice->last_step = num_steps_;
  }
  const auto receive = [&](const LogitsRow& row) {
    parts[row.sequence_idx].choice->logits.assign(row.logits.begin(), row.logits.end());
    return Status::Ok();
  };
  const auto before_layer = [&](uint32_t layer) {
    if (options_.between_layers && layer < forward_.model().config.num_hidden_layers) {
      options_.between_layers();
    }
    CheckTimes();
    return Status::Ok();
  };
  Status status = forward_.Step(inputs, receive, before_layer);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].choice->sequence->AfterStep(inputs[i].tokens);
  }
  return status;
}

void BatchScheduler::Draw(Request& request, Choice& choice) {
  const bool all_run = choice.sequence->length() == choice.generation.ids().size();
  if (!all_run || request.leave) return;
  if (!choice.generation.generated().empty()) return DrawToken(request, choice);
  choice.sequence->MarkTurn();
  ShareSequence(request, choice);
  for (Choice& each : request.choices) {
    if (!each.over) DrawToken(request, each);
  }
}

void BatchScheduler::ShareSequence(Request& request, Choice& first) {
  for (Choice& other : request.choices) {
    if (&other == &first) continue;
    auto copy = first.sequence->CopyPrefix(first.sequence->length(), request.positions);
    if (!copy.has_value()) {
      End(request, other, {}, FinishReason::kFailed, copy.error());
      continue;
    }
    other.sequence = std::move(copy).value();
    other.logits = first.logits;
    other.last_step = first.last_step;
  }
}

void BatchScheduler::DrawToken(Request& request, Choice& choice) {
  Generation& generation = choice.generation;
  GenerationEvent event;
  if (!generation.finished()) {  // Else nothing was to be drawn at all.
    auto text = generation.Accept(choice.logits);
    if (!text.has_value()) return End(request, choice, {}, FinishReason::kFailed, text.error());
    event.token = generation.generated().back();
    event.text = std::move(text).value();
    event.logprobs = generation.last_logprobs();
    ++counts_.generated_tokens;
    if (generation.generated().size() == 1) {
      choice.first_token = options_.now() - request.submitted;
    }
  }
  if (generation.finished()) {
    return End(request, choice, std::move(event), generation.reason(), {});
  }
  event.choice = IndexOf(request, choice);
  request.on_event(std::move(event));
}

uint32_t BatchScheduler::IndexOf(const Request& request, const Choice& choice) {
  return static_cast<uint32_t>(&choice - request.choices.data());
}

void BatchScheduler::EndAll(Request& request, FinishReason reason, const Status& status) {
  for (Choice& choice : request.choices) {
    if (!choice.over) End(request, choice, {}, reason, status);
  }
}

void BatchScheduler::End(Request& request, Choice& choice, GenerationEvent event,
                         FinishReason reason, Status status) {
  const bool failed = reason == FinishReason::kFailed;
  request.failed |= failed;
  request.stopped |= reason == FinishReason::kCancelled || reason == FinishReason::kTimeLimit;
  choice.over = true;
  if (request.begun) {
    --num_running_;
    running_bytes_ -= request.bytes_per_choice;
    // What is held is right even if the next step was not; but who knows what made that fail.
    if (choice.sequence.has_value() && !failed) prompts_.Put(std::move(*choice.sequence));
    choice.sequence.reset();
  }
  event.choice = IndexOf(request, choice);
  event.text += choice.generation.Cancel();  // What was held back, where it did not end by itself.
  event.end = GenerationEnd{.reason = reason,
                            .status = std::move(status),
                            .stop_string = choice.generation.matched_stop_string(),
                            .prompt_tokens = choice.generation.num_prompt_ids(),
                            .reused_tokens = request.reused_tokens,
                            .generated_tokens = choice.generation.generated().size(),
                            .queued = request.queued,
                            .first_token = choice.first_token,
                            .total = options_.now() - request.submitted};
  event.last = ++request.num_over == request.choices.size();
  if (event.last) {
    ++(request.failed ? counts_.failed : request.stopped ? counts_.stopped : counts_.completed);
    const std::scoped_lock lock(mutex_);
    requests_.erase(request.id);
  }
  request.on_event(std::move(event));
}

void BatchScheduler::RemoveEnded() {
  std::erase_if(running_,
                [](const auto& request) { return request->num_over == request->choices.size(); });
}

void BatchScheduler::PublishStats() {
  counts_.running = num_running_;
  counts_.running_kv_bytes = running_bytes_;
  counts_.cached_kv_bytes = prompts_.bytes();
  counts_.cached_sequences = prompts_.size();
  counts_.step = forward_.stats();
  counts_.experts = experts_.stats();
  const std::scoped_lock lock(mutex_);
  published_ = counts_;
}

SchedulerStats BatchScheduler::stats() const {
  const std::scoped_lock lock(mutex_);
  SchedulerStats stats = published_;
  stats.accepted = accepted_;
  stats.refused = refused_;
  stats.queued = queue_.size();
  return stats;
}

}  // namespace picchio
