// A model opened as far as a run can be checked and planned: everything but its weights.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/model_folder.h"
#include "apps/run/expert_storage.h"
#include "apps/run/run_memory.h"
#include "base/memory_info.h"
#include "base/status.h"
#include "engine/memory_plan.h"
#include "engine/memory_watch.h"
#include "experts/eviction_policy.h"
#include "experts/expert_cache.h"
#include "format/tensor_directory.h"
#include "model/step_context.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

enum class Prefetch : uint8_t {
  kOff,
  kAuto,  // Off: no gain was measured (docs/caching.md).
  kOn,
};

struct EngineOptions {
  MemoryWishes memory{};
  int num_threads = 0;  // 0: all usable CPUs.
  StorageOptions storage{};
  CachePolicy cache_policy = kDefaultCachePolicy;
  // Where to write what the run asks the expert cache for.
  std::optional<Path> trace{};
  // Load the experts that earlier runs used most while this one begins.
  bool warm_start = false;
  Compute compute = Compute::kInt8;
  // Compute with what is there while the rest is read; off: read all of a layer first.
  bool async_moe = true;
  // Read ahead what the next layer will probably ask for.
  Prefetch prefetch = Prefetch::kAuto;
  // As in ExpertCache::Options.
  std::chrono::nanoseconds read_timeout = ExpertCache::Options{}.read_timeout;
  // For tests: how the cache's memory is cut, and what the memory watch sees.
  std::optional<uint64_t> cache_chunk_bytes{};
  MemoryWatch::Read read_memory = [] { return ReadMemoryInfo(); };
  std::function<MemoryWatch::Clock::time_point()> watch_clock = MemoryWatch::Clock::now;
  // Told, in a sentence each, what the user should know of the storage. May be empty.
  std::function<void(std::string_view)> notice{};
};

// Opened within milliseconds and little memory, so that a prompt that cannot be run is refused
// before anything else is waited for. Then the memory of the run is planned, and an Engine loads.
class EngineSetup {
 public:
  static Result<std::unique_ptr<EngineSetup>> Open(const Path& folder,
                                                   const EngineOptions& options);
  EngineSetup(const EngineSetup&) = delete;
  EngineSetup& operator=(const EngineSetup&) = delete;

  const ModelFolder& folder() const { return folder_; }
  const ModelConfig& config() const { return folder_.config; }
  // Null where the model has no tokenizer.json.
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  // What PlanRun asks for; borrows from this.
  RunDemand demand() const;

  // The ledger of a run whose prompts have at most so many tokens, for the memory that is free now.
  // Refuses what does not fit with the figures.
  Result<MemoryPlan> Plan(uint32_t longest_prompt = UINT32_MAX) const;
  // The same where so many bytes are free.
  Result<MemoryPlan> PlanFor(uint64_t free_bytes, uint32_t longest_prompt = UINT32_MAX) const;

  uint64_t dense_bytes() const { return dense_bytes_; }
  uint64_t record_bytes() const { return storage_.source->layout().record_bytes; }
  // What loading one expert reads.
  uint64_t read_bytes() const { return storage_.source->slot_bytes(); }

 private:
  friend class Engine;

  EngineSetup(ModelFolder folder, const EngineOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  bool dense_has_biases() const;
  Result<MemoryPlan> Plan(uint32_t longest_prompt, const MemoryInfo& memory) const;

  ModelFolder folder_;
  EngineOptions options_;
  int num_threads_ = 1;
  std::optional<Tokenizer> tokenizer_;
  ExpertStorage storage_;
  std::optional<TensorDirectory> dense_;  // The files with what stays in memory.
  uint64_t dense_bytes_ = 0;
};

}  // namespace picchio
