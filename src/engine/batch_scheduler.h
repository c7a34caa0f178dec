// Many generations over one forward pass: continuous batching.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/kv_sequence.h"
#include "engine/prompt_cache.h"
#include "engine/served_request.h"
#include "experts/expert_cache.h"
#include "model/forward_pass.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

// Since the scheduler was created, and now.
struct SchedulerStats {
  uint64_t accepted = 0;  // Requests: these end in one of the next three ways,
  uint64_t completed = 0;
  uint64_t stopped = 0;  // cancelled or out of time,
  uint64_t failed = 0;
  uint64_t refused = 0;  // or are none, as the queue was full.
  uint64_t prompt_tokens = 0;
  uint64_t reused_tokens = 0;  // Of those, held from before.
  uint64_t generated_tokens = 0;
  size_t queued = 0;   // Requests that wait.
  size_t running = 0;  // Choices under way.
  uint64_t running_kv_bytes = 0;
  uint64_t cached_kv_bytes = 0;  // Of requests that are over.
  size_t cached_sequences = 0;
  StepStats step;
  CacheStats experts;
};

// Requests wait in a bounded queue, first come first served, until there is a place among the
// running and KV memory for all that they may come to need: no request that has begun ever waits
// for memory. Each step takes one token of every sequence that is decoding, and the prompts that
// have begun share the rest of it (step_plan.h); so each layer's experts are read once for all of
// them. What each request gets is the same to the bit as if it were alone.
//
// A request that is cancelled or out of time leaves before the next layer, and the step goes on
// without it: nobody else loses anything. A step that fails (an expert that cannot be read, a value
// that is not finite) is run again sequence by sequence, and only those fail that fail by
// themselves. When a request is over, its sequence stays for those that begin like it
// (prompt_cache.h), as long as nobody needs the memory.
//
// Submit, Cancel, Stop and stats may be called from any thread, also from an event sink; Run,
// RunUntilIdle and RunStep by the owner thread of the forward pass, one at a time. Whoever destroys
// the scheduler has run it to its end: what is left then has no more events.
class BatchScheduler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    uint32_t context = 0;       // Of a request at most, the answer included.
    size_t max_sequences = 8;   // Choices that run at the same time.
    size_t max_queued = 64;     // Requests that wait.
    size_t prefill_span = 512;  // Tokens of prompts in a step with sequences that are decoding.
    // Of running and kept sequences together; at least KvCache::BytesFor(context).
    uint64_t kv_bytes = 0;
    // Called before each layer, when nobody computes with the experts' records.
    std::function<void()> between_layers{};
    std::function<Clock::time_point()> now = Clock::now;  // The machine's but in tests.
  };

  // What the ledger has to set aside: kv_bytes, and what generations take beside it.
  static uint64_t BytesFor(const ModelConfig& config, const Options& options);

  // Borrows them, which outlive it; `experts` is the cache that `forward` computes with; without
  // tokenizer (null) there are ids only. kInvalidArgument where an option is out of its range or
  // the forward pass takes fewer than two rows.
  static Result<std::unique_ptr<BatchScheduler>> Create(ForwardPass& forward,
                                                        const ExpertCache& experts,
                                                        const Tokenizer* tokenizer,
                                                        Options options);
  BatchScheduler(const BatchScheduler&) = delete;
  BatchScheduler& operator=(const BatchScheduler&) = delete;

  // Puts a request into the queue; events may come before this returns. Fails at once with
  // kInvalidArgument where it can never be served (as Generation::Create says; more choices than
  // run at the same time, or than there is KV memory for); kResourceExhausted where the queue is
  // full: try again later; kUnavailable after Stop.
  Result<RequestId> Submit(ServedRequest request, EventSink on_event);

  // The request ends as cancelled, before the next layer; nothing happens if it is over already.
  void Cancel(RequestId id);

  // Refuses new requests. Those that are there have until then to end by themselves, and after that
  // end as failed (kUnavailable) before the next layer. A second call can only shorten the time.
  void Stop(std::chrono::milliseconds grace = {});

  // Serves until Stop was called and all requests are over.
  void Run();
  // Serves until nothing is left to do.
  void RunUntilIdle();
  // Runs a step; false if there was nothing to run.
  bool RunStep();

  SchedulerStats stats() const;

 private:
  struct Choice {
    explicit Choice(Generation g) : generation(std::move(g)) {}

    Generation generation;
    // Absent before it begins, after it is over, and while the request's first runs the prompt.
    std::optional<KvSequence> sequence;
    std::vector<float> logits;  // Behind the last of generation.ids(), once they are there.
    uint64_t last_step = 0;
    std::chrono::nanoseconds first_token{0};
    bool over = false;
  };
  struct Request {
    RequestId id = 0;
    EventSink on_event;
    std::vector<Choice> choices;
    uint32_t positions = 0;          // That a choice may come to need.
    uint64_t bytes_per_choice = 0;   // What those take.
    std::atomic<bool> leave{false};  // Any thread. By the user, unless one of the next two.
    bool timed_out = false;          // These by the owner.
    bool shut_down = false;
    Clock::time_point submitted;
    std::optional<Clock::time_point> deadline;
    bool begun = false;
    std::chrono::nanoseconds queued{0};
    size_t reused_tokens = 0;
    size_t num_over = 0;  // Of choices.
    bool failed = false;
    bool stopped = false;
  };
  // A choice's part of a step.
  struct Part {
    Request* request;
    Choice* choice;
    size_t count;  // Tokens.
  };

  BatchScheduler(ForwardPass& forward, const ExpertCache& experts, const Tokenizer* tokenizer,
                 Options options)
      : forward_(forward), experts_(experts), tokenizer_(tokenizer), options_(std::move(options)) {}

  // Marks whoever is out of time, and ends those in the queue that leave.
  void CheckTimes();
  // Begins requests from the front of the queue as long as there is room.
  void Admit();
  bool HasRoom(const Request& request) const;
  void Begin(Request& request);
  Result<KvSequence> SequenceFor(const Request& request);
  void EndLeaving();
  std::vector<Part> PlanParts();
  void RunParts(std::span<const Part> parts);
  Status StepParts(std::span<const Part> parts);
  // Where all that there was to run has been run: draws, behind the prompt for all choices.
  void Draw(Request& request, Choice& choice);
  void DrawToken(Request& request, Choice& choice);
  // Gives the other choices what the first has run.
  void ShareSequence(Request& request, Choice& first);
  // The choice is over: its last event, and its sequence goes to the prompt cache.
  void End(Request& request, Choice& choice, GenerationEvent event, FinishReason reason,
           Status status);
  void EndAll(Request& request, FinishReason reason, const Status& status);
  void Leave(Request& request);
  static uint32_t IndexOf(const Request& request, const Choice& choice);
  void RemoveEnded();
  void PublishStats();

  ForwardPass& forward_;
  const ExpertCache& experts_;
  const Tokenizer* const tokenizer_;
  const Options options_;

  // The owner's.
  std::vector<std::unique_ptr<Request>> running_;
  PromptCache prompts_;
  size_t num_running_ = 0;  // Choices that are not over.
  uint64_t running_bytes_ = 0;
  uint64_t num_steps_ = 0;
  SchedulerStats counts_;  // What is published.

  mutable std::mutex mutex_;  // For what follows.
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Request>> queue_;
  std::map<RequestId, Request*> requests_;  // All that are not over.
  RequestId last_id_ = 0;
  std::optional<Clock::time_point> stop_at_;  // Once Stop was called.
  uint64_t accepted_ = 0;
  uint64_t refused_ = 0;
  SchedulerStats published_;
};

}  // namespace picchio
