#include "apps/pack/model_records.h"

#include <cstring>
#include <utility>
#include <vector>

namespace picchio {

Result<ModelRecords> ModelRecords::Open(const ModelFolder& model,
                                        const ExpertRecordLayout& layout) {
  const bool whole = HasExpertContainers(model.manifest);
  PICCHIO_ASSIGN_OR_RETURN(ContainerRecords container,
                           ContainerRecords::Open(model.tensors, layout, model.config,
                                                  whole ? ContainerRecords::Parts::kAll
                                                        : ContainerRecords::Parts::kBiases));
  ModelRecords records(std::move(container));
  if (!whole) records.hashes_.emplace(model.manifest, layout);
  return records;
}

void ModelRecords::WillNeed(RecordPlace place) const {
  container_.WillNeed(place.layer, place.expert);
}

Status ModelRecords::Read(RecordPlace place, std::span<std::byte> expected) const {
  return container_.Read(place.layer, place.expert,
                         expected.first(container_.layout().record_bytes));
}

Status ModelRecords::Compare(const FlatIndex& index, RecordPlace place,
                             std::span<const std::byte> stored,
                             std::span<const std::byte> expected) const {
  if (!hashes_) return CompareWithContainer(index, container_, place, stored, expected);
  PICCHIO_RETURN_IF_ERROR(hashes_->Check(place, stored.first(index.layout().record_bytes)));
  // The hashed bytes are as they must be: what is left to compare is everything around them.
  std::vector<std::byte> rest(stored.begin(), stored.end());
  for (const ExpertTensor& tensor : ExpertTensors(container_.layout(), 0, 0)) {
    std::memset(rest.data() + tensor.part.offset, 0, tensor.part.bytes);
  }
  return CompareWithContainer(index, container_, place, rest, expected);
}

}  // namespace picchio
