// A model made ready to run: its weights loaded, its cache and working memory allocated.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/run/engine_setup.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "engine/memory_plan.h"
#include "engine/memory_watch.h"
#include "engine/session.h"
#include "experts/access_trace.h"
#include "experts/expert_cache.h"
#include "experts/use_counters.h"
#include "model/forward_pass.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

// Owns everything that a run borrows. Owner thread of the forward pass only.
class Engine {
 public:
  // Takes over a setup and allocates what `plan` says, which the setup has made.
  static Result<std::unique_ptr<Engine>> Load(std::unique_ptr<EngineSetup> setup,
                                              const MemoryPlan& plan);
  // Opens, plans for prompts of any length, and loads.
  static Result<std::unique_ptr<Engine>> Open(const Path& folder, const EngineOptions& options);

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelConfig& config() const { return setup_->config(); }
  const MemoryPlan& memory() const { return memory_; }
  const ExpertCache& experts() const { return *experts_; }
  // The sources that experts are read from, in order of preference.
  std::span<const TierStats> tiers() const { return storage_->tier_stats(); }
  // How each of them is read.
  std::span<const DeviceInUse> devices() const { return setup_->storage_.devices; }
  // Why the store is not among them; empty where it is, or where there is none.
  const std::string& store_refusal() const { return setup_->storage_.refusal; }
  ForwardPass& forward() { return *forward_; }
  // Asked to read ahead, and without slots for it: a cache too small, or cut up by layers.
  bool prefetch_refused() const {
    return setup_->options_.prefetch == Prefetch::kOn && memory_.prefetch_slots == 0 &&
           memory_.num_slots < memory_.num_records;
  }
  int num_threads() const { return pool_->num_threads(); }
  // More than num_threads() where the system had no more to give.
  int num_threads_wanted() const { return setup_->num_threads_; }
  // Null where the model has no tokenizer.json. Stays where the setup had it.
  const Tokenizer* tokenizer() const { return setup_->tokenizer(); }

  Result<Session> NewSession();

  // The trace, if there is to be one, is whole and gets its name.
  Status FinishTrace();

  // Leaves how often each expert was used, in earlier runs and this one, for the next.
  Status SaveUseCounters() const;
  // Given back since the run began, as the memory limit came down.
  uint64_t cache_bytes_given_back() const { return memory_watch_->bytes_given_back(); }

 private:
  Engine(std::unique_ptr<EngineSetup> setup, const MemoryPlan& plan)
      : setup_(std::move(setup)), memory_(plan) {}

  Status CreateTrace();
  ExpertCache::Options CacheOptions();
  CountedModel Counted() const;
  // Loads what earlier runs used most; where it cannot be known, says so and does without.
  void WarmStart();

  // In the order in which each borrows from those before it.
  std::unique_ptr<EngineSetup> setup_;  // Its source has gone to the cache.
  MemoryPlan memory_;
  std::unique_ptr<ThreadPool> pool_;
  std::optional<Model> model_;
  std::optional<TraceWriter> trace_;
  std::unique_ptr<ExpertCache> experts_;
  const TieredExpertSource* storage_ = nullptr;  // The cache's.
  std::unique_ptr<MemoryWatch> memory_watch_;
  std::unique_ptr<ForwardPass> forward_;
};

}  // namespace picchio
