#include "apps/run/engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_info.h"
#include "experts/slot_arena.h"
#include "model/dense_weights.h"

namespace picchio {
namespace {

bool CarriesBiases(const ExpertRecordLayout& layout) { return layout.down_bias.bytes > 0; }

// The files with what stays in memory: all but the experts' own.
Result<TensorDirectory> OpenDense(const ModelFolder& folder) {
  std::vector<std::string> names;
  for (const ManifestContainer& container : folder.manifest.containers) {
    if (!IsExpertContainer(container.name)) names.push_back(container.name);
  }
  return TensorDirectory::OpenFiles(folder.path, names);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Open(const Path& path, const EngineOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(ModelFolder folder, OpenModelFolder(path));
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(folder)));
  const ModelFolder& model = engine->folder_;
  if (model.tokenizer.has_value()) {
    PICCHIO_ASSIGN_OR_RETURN(engine->tokenizer_,
                             Tokenizer::Parse(*model.tokenizer, PathText(path / "tokenizer.json")));
    PICCHIO_RETURN_IF_ERROR(engine->tokenizer_->CheckFitsVocabulary(model.config.vocab_size));
  }

  const int num_threads = options.num_threads > 0 ? options.num_threads : UsableCpus();
  const ForwardPass::Options forward{.max_rows = options.prefill_span, .compute = options.compute};
  PICCHIO_ASSIGN_OR_RETURN(ExpertStorage storage,
                           OpenExpertStorage(model, options.storage, options.notice));
  const ExpertRecordLayout layout = storage.source->layout();
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory dense, OpenDense(model));
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t dense_bytes,
                           DenseWeightBytes(dense, model.config, !CarriesBiases(layout)));
  const MemoryDemand demand =
      DemandOf(model.config, dense_bytes,
               ForwardPass::WorkingBytes(model.config, layout, forward, num_threads),
               SlotArena::StrideFor(storage.source->slot_bytes()));
  PICCHIO_ASSIGN_OR_RETURN(const MemoryInfo memory, ReadMemoryInfo());
  PICCHIO_ASSIGN_OR_RETURN(
      engine->memory_,
      PlanMemory(
          demand, [&](uint32_t context) { return KvCache::BytesFor(model.config, context); },
          options.memory, memory));

  engine->num_threads_wanted_ = num_threads;
  engine->pool_ = std::make_unique<ThreadPool>(num_threads);
  PICCHIO_ASSIGN_OR_RETURN(
      engine->model_, Model::Open(dense, model.config, !CarriesBiases(layout), *engine->pool_));
  engine->storage_ = storage.source.get();
  engine->store_refusal_ = std::move(storage.refusal);
  PICCHIO_ASSIGN_OR_RETURN(
      engine->experts_,
      ExpertCache::Create(std::move(storage.source),
                          {.num_slots = static_cast<size_t>(engine->memory_.num_slots)}));
  PICCHIO_ASSIGN_OR_RETURN(engine->forward_, ForwardPass::Create(*engine->model_, *engine->experts_,
                                                                 *engine->pool_, forward));
  return engine;
}

Result<Session> Engine::NewSession() {
  return Session::Create(*forward_, *experts_, memory_.context);
}

}  // namespace picchio
