#include "apps/run/engine.h"

#include <algorithm>
#include <utility>

#include "apps/progress.h"
#include "base/units.h"

namespace picchio {

Result<std::unique_ptr<Engine>> Engine::Load(std::unique_ptr<EngineSetup> setup,
                                             const MemoryPlan& plan) {
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(setup), plan));
  EngineSetup& from = *engine->setup_;
  PICCHIO_RETURN_IF_ERROR(engine->CreateTrace());
  const bool dense_has_biases = from.dense_has_biases();
  engine->pool_ = std::make_unique<ThreadPool>(from.num_threads_);
  {
    Progress progress("loading the dense weights", plan.dense_bytes);
    PICCHIO_ASSIGN_OR_RETURN(
        engine->model_, Model::Open(*from.dense_, from.config(), dense_has_biases, *engine->pool_,
                                    [&progress](uint64_t bytes) { progress.Add(bytes); }));
  }
  from.dense_.reset();
  engine->storage_ = from.storage_.source.get();
  {
    Progress progress("preparing memory", plan.cache_bytes);
    ExpertCache::Options cache = engine->CacheOptions();
    cache.on_backed = [&](uint64_t bytes) { progress.SetDone(bytes); };
    PICCHIO_ASSIGN_OR_RETURN(engine->experts_,
                             ExpertCache::Create(std::move(from.storage_.source), cache));
  }
  engine->memory_watch_ = std::make_unique<MemoryWatch>(
      *engine->experts_, from.options_.read_memory, from.options_.watch_clock);
  if (from.options_.warm_start) engine->WarmStart();
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

Status Engine::CreateTrace() {
  if (!setup_->options_.trace.has_value()) return Status::Ok();
  const TraceHeader header{
      .num_layers = config().num_hidden_layers,
      .num_experts = config().num_experts,
      .experts_per_token = config().experts_per_token,
      .num_records = uint64_t{config().num_moe_layers()} * config().num_experts,
      .record_bytes = setup_->storage_.source->layout().record_bytes};
  PICCHIO_ASSIGN_OR_RETURN(TraceWriter trace, TraceWriter::Create(*setup_->options_.trace, header));
  trace_.emplace(std::move(trace));
  return Status::Ok();
}

Status Engine::FinishTrace() { return trace_.has_value() ? trace_->Finish() : Status::Ok(); }

ExpertCache::Options Engine::CacheOptions() {
  ExpertCache::Options cache{.num_slots = static_cast<size_t>(memory_.num_slots),
                             .policy = setup_->options_.cache_policy};
  // Pieces of a sixteenth, so that memory can be given back in some, none too small for huge pages.
  cache.chunk_bytes = setup_->options_.cache_chunk_bytes.value_or(
      std::clamp<uint64_t>(memory_.cache_bytes / 16, 32_MiB, cache.chunk_bytes));
  cache.read_timeout = setup_->options_.read_timeout;
  cache.overlap = setup_->options_.async_moe;
  cache.prefetch_slots = static_cast<size_t>(memory_.prefetch_slots);
  cache.experts_per_token = config().experts_per_token;
  // More slots than a layer has experts would stay empty: the plan has none such.
  if (const auto wished = setup_->options_.memory.slots_per_layer; wished.has_value()) {
    cache.slots_per_layer = std::min(*wished, config().num_experts);
  }
  if (trace_.has_value()) {
    cache.on_list = [this](int layer, std::span<const int32_t> experts) {
      trace_->Add(layer, experts);
    };
  }
  return cache;
}

CountedModel Engine::Counted() const {
  return {.id = setup_->folder().manifest.model_id().Hex(),
          .num_layers = config().num_hidden_layers,
          .num_experts = config().num_experts};
}

void Engine::WarmStart() {
  const CountedModel model = Counted();
  const auto uses = LoadUseCounters(UseCounterPlaces(setup_->folder().path, model), model);
  if (uses.has_value()) {
    experts_->Preload(*uses);
  } else if (setup_->options_.notice) {
    setup_->options_.notice(fmt::format("{}; starting without", uses.error().message()));
  }
}

Status Engine::SaveUseCounters() const {
  const CountedModel model = Counted();
  return picchio::SaveUseCounters(experts_->UsesOfAll(),
                                  UseCounterPlaces(setup_->folder().path, model), model);
}

Result<Session> Engine::NewSession() {
  return Session::Create(*forward_, *experts_, memory_.context,
                         [watch = memory_watch_.get()] { watch->Check(); });
}

}  // namespace picchio
