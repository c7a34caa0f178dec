#include "apps/convert/conversion.h"

#include <algorithm>
#include <map>

#include "apps/hash_range.h"
#include "apps/work_queue.h"
#include "base/units.h"

namespace picchio {

Status Conversion::CheckJournalled(int num_threads, const std::atomic<bool>& stop) {
  std::vector<size_t> claimed;
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan_.groups.size(); ++i) {
    const auto tensors = TensorsOf(plan_.groups[i]);
    if (!std::ranges::all_of(tensors, [this](size_t tensor_idx) {
          return journal_.entries().contains(plan_.tensors[tensor_idx].name);
        })) {
      continue;
    }
    claimed.push_back(i);
    for (const size_t tensor_idx : tensors) bytes += plan_.tensors[tensor_idx].bytes;
  }
  if (claimed.empty()) return Status::Ok();
  Progress progress("checking what an earlier run wrote", bytes);
  return RunOnThreads(num_threads, claimed.size(), [&](size_t n, int) -> Status {
    const UnitGroup& group = plan_.groups[claimed[n]];
    std::optional<RecordWriter> record = WriterOf(group);
    for (const size_t tensor_idx : TensorsOf(group)) {
      PICCHIO_ASSIGN_OR_RETURN(const bool intact, IsIntact(tensor_idx, record, progress, stop));
      if (!intact) return Status::Ok();
    }
    PICCHIO_RETURN_IF_ERROR(FinishRecord(group, record));
    const std::lock_guard lock(mutex_);
    done_[claimed[n]] = true;
    for (const ConversionUnit& unit : UnitsOf(group)) {
      resumed_bytes_ += unit.source_bytes;
      const Journal::Entry& entry = journal_.entries().at(plan_.tensors[unit.output_idx].name);
      Keep(unit, entry.sha256,
           unit.scales_output_idx.has_value()
               ? journal_.entries().at(plan_.tensors[*unit.scales_output_idx].name).sha256
               : Sha256Digest(),
           entry.error);
    }
    return Status::Ok();
  });
}

Status Conversion::RunUnits(int num_threads, const std::atomic<bool>& stop) {
  std::vector<size_t> todo;
  for (size_t i = 0; i < plan_.groups.size(); ++i) {
    if (!done_[i]) todo.push_back(i);
  }
  Progress progress("converting", plan_.source_bytes - resumed_bytes_);
  std::vector<UnitRunner> runners;
  runners.reserve(static_cast<size_t>(num_threads));
  for (int i = 0; i < num_threads; ++i) {
    runners.emplace_back(plan_, checkpoint_, options_.quantizer);
  }
  return RunOnThreads(num_threads, todo.size(), [&](size_t n, int thread) -> Status {
    // The device reads the next matrices for this thread while it codes these.
    const size_t ahead = n + static_cast<size_t>(num_threads);
    if (ahead < todo.size()) {
      for (const ConversionUnit& unit : UnitsOf(plan_.groups[todo[ahead]])) {
        ForEachRange(unit, [this](const TensorEntry& tensor, uint64_t offset, uint64_t bytes) {
          checkpoint_.WillNeed(tensor, offset, std::min<uint64_t>(bytes, 32_MiB));
        });
      }
    }
    const UnitGroup& group = plan_.groups[todo[n]];
    std::optional<RecordWriter> record = WriterOf(group);
    for (const ConversionUnit& unit : UnitsOf(group)) {
      PICCHIO_RETURN_IF_ERROR(
          RunUnit(unit, runners[static_cast<size_t>(thread)], record, progress, stop));
    }
    return FinishRecord(group, record);
  });
}

Status Conversion::Publish(Manifest& manifest) {
  for (size_t i = 0; i < plan_.tensors.size(); ++i) {
    const OutputTensor& tensor = plan_.tensors[i];
    manifest.tensors.push_back({.name = tensor.name,
                                .dtype = tensor.dtype,
                                .shape = tensor.shape,
                                .scheme = tensor.scheme,
                                .sha256 = hashes_[i],
                                .file = plan_.files[tensor.file_idx].name});
  }
  for (size_t i = 0; i < plan_.files.size(); ++i) {
    const OutputFile& file = plan_.files[i];
    if (store_ && i == plan_.store_file_idx) {
      store_->SetModelId(manifest.model_id());
      PICCHIO_RETURN_IF_ERROR(outputs_.Write(i, 0, store_->SerializeHead()));
      manifest.stores.push_back({file.name, file.bytes, store_->superblock().index_sha256});
    } else {
      manifest.containers.push_back({file.name, file.bytes, Sha256Of(file.header)});
    }
  }
  return outputs_.Publish();
}

std::vector<ConversionReport::ClassError> Conversion::errors() const {
  std::map<TensorClass, QuantError> by_class;
  for (const ConversionUnit& unit : plan_.units) {
    if (unit.scales_output_idx) by_class[unit.tensor_class].Add(errors_[unit.output_idx]);
  }
  std::vector<ConversionReport::ClassError> list;
  list.reserve(by_class.size());
  for (const auto& [tensor_class, error] : by_class) list.push_back({tensor_class, error});
  return list;
}

std::span<const ConversionUnit> Conversion::UnitsOf(const UnitGroup& group) const {
  return std::span(plan_.units).subspan(group.first_unit, group.last_unit - group.first_unit);
}

std::vector<size_t> Conversion::TensorsOf(const UnitGroup& group) const {
  std::vector<size_t> tensors;
  for (const ConversionUnit& unit : UnitsOf(group)) {
    tensors.push_back(unit.output_idx);
    if (unit.scales_output_idx) tensors.push_back(*unit.scales_output_idx);
  }
  return tensors;
}

std::optional<RecordWriter> Conversion::WriterOf(const UnitGroup& group) {
  if (!group.record) return std::nullopt;
  return std::optional<RecordWriter>(std::in_place, outputs_, plan_.store_file_idx, *store_,
                                     *group.record);
}

Status Conversion::WriteTensor(const OutputTensor& tensor, uint64_t offset,
                               std::span<const std::byte> bytes,
                               std::optional<RecordWriter>& record) {
  if (!record) return outputs_.Write(tensor.file_idx, tensor.offset + offset, bytes);
  if (!tensor.store_offset) return record->Write(tensor.offset + offset, bytes);
  PICCHIO_RETURN_IF_ERROR(outputs_.Write(tensor.file_idx, tensor.offset + offset, bytes));
  return record->Write(*tensor.store_offset + offset, bytes);
}

Status Conversion::RunUnit(const ConversionUnit& unit, UnitRunner& runner,
                           std::optional<RecordWriter>& record, Progress& progress,
                           const std::atomic<bool>& stop) {
  const auto write = [&](size_t tensor, uint64_t offset, std::span<const std::byte> bytes) {
    return WriteTensor(plan_.tensors[tensor], offset, bytes, record);
  };
  PICCHIO_ASSIGN_OR_RETURN(const UnitResult result,
                           runner.Run(
                               unit, write, [&](uint64_t bytes) { progress.Add(bytes); }, stop));
  // A long copy must not push everybody else's pages out of the cache.
  ForEachRange(unit, [this](const TensorEntry& tensor, uint64_t offset, uint64_t bytes) {
    checkpoint_.DropCache(tensor, offset, bytes);
  });
  const std::lock_guard lock(mutex_);
  Keep(unit, result.output, result.scales, result.error);
  PICCHIO_RETURN_IF_ERROR(
      journal_.Record(plan_.tensors[unit.output_idx].name, {result.output, result.error}));
  if (!unit.scales_output_idx.has_value()) return Status::Ok();
  return journal_.Record(plan_.tensors[*unit.scales_output_idx].name, {result.scales, {}});
}

Status Conversion::FinishRecord(const UnitGroup& group, std::optional<RecordWriter>& record) {
  if (!record) return Status::Ok();
  for (const UnitGroup::Bias& bias : group.biases) {
    const TensorEntry& tensor = *bias.tensor;
    std::vector<float> values(bias.part.bytes / sizeof(float));
    std::vector<std::byte> row(values.size() * DtypeBytes(tensor.dtype));
    PICCHIO_RETURN_IF_ERROR(checkpoint_.ReadAt(tensor, bias.row * row.size(), row));
    WidenToF32(tensor.dtype, row, values);
    PICCHIO_RETURN_IF_ERROR(
        record->Write(record->offset() + bias.part.offset, std::as_bytes(std::span(values))));
  }
  return record->Finish(*store_);
}

Result<bool> Conversion::IsIntact(size_t tensor_idx, std::optional<RecordWriter>& record,
                                  Progress& progress, const std::atomic<bool>& stop) {
  const OutputTensor& tensor = plan_.tensors[tensor_idx];
  const Sha256Digest& expected = journal_.entries().at(tensor.name).sha256;
  if (!record || tensor.store_offset) {
    PICCHIO_ASSIGN_OR_RETURN(
        const Sha256Digest found,
        HashRange(outputs_.file(tensor.file_idx), tensor.offset, tensor.bytes, progress, stop));
    if (!record || found != expected) return found == expected;
  }
  const uint64_t in_store = tensor.store_offset.value_or(tensor.offset);
  const auto take = [&](uint64_t at, std::span<const std::byte> bytes) {
    progress.Add(tensor.store_offset ? 0 : bytes.size());
    return record->Took(in_store + at, bytes);
  };
  PICCHIO_ASSIGN_OR_RETURN(const Sha256Digest found,
                           HashRange(outputs_.file(plan_.store_file_idx), in_store, tensor.bytes,
                                     VisitBlock(take), stop));
  return found == expected;
}

void Conversion::Keep(const ConversionUnit& unit, const Sha256Digest& output,
                      const Sha256Digest& scales, const QuantError& error) {
  hashes_[unit.output_idx] = output;
  errors_[unit.output_idx] = error;
  if (unit.scales_output_idx.has_value()) hashes_[*unit.scales_output_idx] = scales;
}

void Conversion::ForEachRange(
    const ConversionUnit& unit,
    FunctionRef<void(const TensorEntry&, uint64_t offset, uint64_t bytes)> visit) const {
  const auto visit_rows = [&](const TensorEntry& tensor, const SourceRows& rows) {
    const uint64_t row_bytes = tensor.bytes / std::max<uint64_t>(1, RowsOf(tensor));
    visit(tensor, rows.first_row * row_bytes, rows.num_rows * row_bytes);
  };
  for (const SourceRows& rows : unit.sources) {
    visit_rows(*rows.tensor, rows);
    if (rows.scales != nullptr) visit_rows(*rows.scales, rows);
  }
}

}  // namespace picchio
