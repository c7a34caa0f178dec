#include "apps/pack/model_records.h"

#include <utility>

namespace picchio {

Result<ModelRecords> ModelRecords::Open(const ModelFolder& model,
                                        const ExpertRecordLayout& layout) {
  ModelRecords records;
  if (HasExpertContainers(model.manifest)) {
    PICCHIO_ASSIGN_OR_RETURN(records.container_,
                             ContainerRecords::Open(model.tensors, layout, model.config));
  } else {
    records.hashes_.emplace(model.manifest, layout);
  }
  return records;
}

void ModelRecords::WillNeed(RecordPlace place) const {
  if (container_) container_->WillNeed(place.layer, place.expert);
}

Status ModelRecords::Read(RecordPlace place, std::span<std::byte> expected) const {
  if (!container_) return Status::Ok();
  return container_->Read(place.layer, place.expert,
                          expected.first(container_->layout().record_bytes));
}

Status ModelRecords::Compare(const FlatIndex& index, RecordPlace place,
                             std::span<const std::byte> stored,
                             std::span<const std::byte> expected) const {
  return container_ ? CompareWithContainer(index, *container_, place, stored, expected)
                    : hashes_->Check(place, stored.first(index.layout().record_bytes));
}

}  // namespace picchio
