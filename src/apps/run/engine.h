// A model made ready to run: opened, sized against the memory there is, loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "apps/model_folder.h"
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
  int num_threads = 0;     // 0: all usable CPUs.
  int num_io_threads = 8;  // Reads in flight at the device.
  size_t prefill_span = 512;
  Compute compute = Compute::kInt8;
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
  std::unique_ptr<ForwardPass> forward_;
};

}  // namespace picchio
