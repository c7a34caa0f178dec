// A model made ready to run: opened, sized against the memory there is, loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/model_folder.h"
#include "apps/run/expert_storage.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "engine/memory_plan.h"
#include "engine/session.h"
#include "experts/expert_cache.h"
#include "model/forward_pass.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace picchio {

struct EngineOptions {
  MemoryWishes memory{};
  int num_threads = 0;  // 0: all usable CPUs.
  StorageOptions storage{};
  size_t prefill_span = 512;
  Compute compute = Compute::kInt8;
  // Told, in a sentence each, what the user should know of the storage. May be empty.
  std::function<void(std::string_view)> notice{};
};

// Owns everything that a run borrows. Owner thread of the forward pass only.
class Engine {
 public:
  // Refuses with the figures what does not fit into memory before allocating any of it.
  static Result<std::unique_ptr<Engine>> Open(const Path& folder, const EngineOptions& options);

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelFolder& folder() const { return folder_; }
  const ModelConfig& config() const { return folder_.config; }
  const MemoryPlan& memory() const { return memory_; }
  const ExpertCache& experts() const { return *experts_; }
  // The sources that experts are read from, in order of preference.
  std::span<const TierStats> tiers() const { return storage_->tier_stats(); }
  // Why the store is not among them; empty where it is, or where there is none.
  const std::string& store_refusal() const { return store_refusal_; }
  ForwardPass& forward() { return *forward_; }
  int num_threads() const { return pool_->num_threads(); }
  // More than num_threads() where the system had no more to give.
  int num_threads_wanted() const { return num_threads_wanted_; }
  // Null where the model has no tokenizer.json.
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  Result<Session> NewSession();

 private:
  explicit Engine(ModelFolder folder) : folder_(std::move(folder)) {}

  ModelFolder folder_;
  MemoryPlan memory_;
  int num_threads_wanted_ = 0;
  std::optional<Tokenizer> tokenizer_;
  // In the order in which each borrows from those before it.
  std::unique_ptr<ThreadPool> pool_;
  std::optional<Model> model_;
  std::unique_ptr<ExpertCache> experts_;
  const TieredExpertSource* storage_ = nullptr;  // The cache's.
  std::string store_refusal_;
  std::unique_ptr<ForwardPass> forward_;
};

}  // namespace picchio
