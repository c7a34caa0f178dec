#include "apps/run/engine_setup.h"

#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "model/dense_weights.h"

namespace picchio {
namespace {

Result<TensorDirectory> OpenDense(const ModelFolder& folder) {
  std::vector<std::string> names;
  for (const ManifestContainer& container : folder.manifest.containers) {
    if (!IsExpertContainer(container.name)) names.push_back(container.name);
  }
  return TensorDirectory::OpenFiles(folder.path, names);
}

}  // namespace

Result<std::unique_ptr<EngineSetup>> EngineSetup::Open(const Path& path,
                                                       const EngineOptions& options) {
  PICCHIO_ASSIGN_OR_RETURN(ModelFolder folder, OpenModelFolder(path));
  auto setup = std::unique_ptr<EngineSetup>(new EngineSetup(std::move(folder), options));
  ModelFolder& model = setup->folder_;
  if (model.tokenizer.has_value()) {
    PICCHIO_ASSIGN_OR_RETURN(setup->tokenizer_,
                             Tokenizer::Parse(*model.tokenizer, PathText(path / "tokenizer.json")));
    PICCHIO_RETURN_IF_ERROR(setup->tokenizer_->CheckFitsVocabulary(model.config.vocab_size));
    model.tokenizer.reset();  // Ten megabytes of text that nobody reads again.
  }
  setup->num_threads_ = options.num_threads > 0 ? options.num_threads : UsableCpus();
  PICCHIO_ASSIGN_OR_RETURN(setup->storage_,
                           OpenExpertStorage(model, options.storage, options.notice));
  PICCHIO_ASSIGN_OR_RETURN(setup->dense_, OpenDense(model));
  PICCHIO_ASSIGN_OR_RETURN(setup->dense_bytes_, DenseWeightBytes(*setup->dense_, model.config,
                                                                 setup->dense_has_biases()));
  return setup;
}

// Biases of the experts lie in their records, or else with the dense weights.
bool EngineSetup::dense_has_biases() const {
  return storage_.source->layout().down_bias.bytes == 0;
}

RunDemand EngineSetup::demand() const {
  return {.config = config(),
          .layout = storage_.source->layout(),
          .dense_bytes = dense_bytes_,
          .slot_bytes = storage_.source->slot_bytes(),
          .compute = options_.compute,
          .num_threads = num_threads_};
}

Result<MemoryPlan> EngineSetup::Plan(uint32_t longest_prompt) const {
  PICCHIO_ASSIGN_OR_RETURN(const MemoryInfo memory, ReadMemoryInfo());
  return Plan(longest_prompt, memory);
}

Result<MemoryPlan> EngineSetup::PlanFor(uint64_t free_bytes, uint32_t longest_prompt) const {
  return Plan(longest_prompt, {.physical_bytes = free_bytes, .available_bytes = free_bytes});
}

Result<MemoryPlan> EngineSetup::Plan(uint32_t longest_prompt, const MemoryInfo& memory) const {
  MemoryWishes wishes = options_.memory;
  wishes.longest_prompt = longest_prompt;
  wishes.prefetch = options_.prefetch == Prefetch::kOn;
  return PlanRun(demand(), wishes, memory);
}

}  // namespace picchio
