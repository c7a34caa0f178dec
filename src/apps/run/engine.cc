#include "apps/run/engine.h"

#include <utility>

namespace picchio {

Result<std::unique_ptr<Engine>> Engine::Load(std::unique_ptr<EngineSetup> setup,
                                             const MemoryPlan& plan) {
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(setup), plan));
  EngineSetup& from = *engine->setup_;
  const bool dense_has_biases = from.dense_has_biases();
  engine->pool_ = std::make_unique<ThreadPool>(from.num_threads_);
  PICCHIO_ASSIGN_OR_RETURN(
      engine->model_, Model::Open(*from.dense_, from.config(), dense_has_biases, *engine->pool_));
  from.dense_.reset();
  engine->storage_ = from.storage_.source.get();
  PICCHIO_ASSIGN_OR_RETURN(engine->experts_,
                           ExpertCache::Create(std::move(from.storage_.source),
                                               {.num_slots = static_cast<size_t>(plan.num_slots)}));
  PICCHIO_ASSIGN_OR_RETURN(
      engine->forward_,
      ForwardPass::Create(*engine->model_, *engine->experts_, *engine->pool_,
                          {.max_rows = plan.prefill_span, .compute = from.options_.compute}));
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::Open(const Path& folder, const EngineOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(auto setup, EngineSetup::Open(folder, options));
  PICCHIO_ASSIGN_OR_RETURN(const MemoryPlan plan, setup->Plan());
  return Load(std::move(setup), plan);
}

Result<Session> Engine::NewSession() {
  return Session::Create(*forward_, *experts_, memory_.context);
}

}  // namespace picchio
