// The work of one conversion: the units of a plan, those that an earlier run has not done, and the
// hashes that they come to.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "apps/convert/conversion_plan.h"
#include "apps/convert/convert.h"
#include "apps/convert/journal.h"
#include "apps/convert/output_files.h"
#include "apps/convert/record_writer.h"
#include "apps/convert/unit_runner.h"
#include "apps/progress.h"
#include "base/function_ref.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/flat_index.h"
#include "format/manifest.h"
#include "format/tensor_directory.h"

namespace picchio {

// Borrows checkpoint, plan and options. Owner thread only.
class Conversion {
 public:
  Conversion(const TensorDirectory& checkpoint, const ConversionPlan& plan,
             const ConversionOptions& options, OutputFiles outputs, Journal journal)
      : checkpoint_(checkpoint),
        plan_(plan),
        options_(options),
        outputs_(std::move(outputs)),
        store_(plan.store),
        journal_(std::move(journal)),
        hashes_(plan.tensors.size()),
        errors_(plan.tensors.size()),
        done_(plan.groups.size(), false) {}

  // Hashes what the journal says is written, and keeps what is as it says.
  Status CheckJournalled(int num_threads, const std::atomic<bool>& stop);

  // Makes everything else, and records it in the journal as it goes.
  Status RunUnits(int num_threads, const std::atomic<bool>& stop);

  // Gives the files their names and returns what the manifest says of them.
  Status Publish(Manifest& manifest);

  uint64_t resumed_bytes() const { return resumed_bytes_; }

  // Summed in the plan's order: the same figures whoever was faster, and whatever was resumed.
  std::vector<ConversionReport::ClassError> errors() const;

 private:
  std::span<const ConversionUnit> UnitsOf(const UnitGroup& group) const;

  // In the order in which a record has them.
  std::vector<size_t> TensorsOf(const UnitGroup& group) const;

  std::optional<RecordWriter> WriterOf(const UnitGroup& group);

  // Writes a piece of a tensor wherever it belongs.
  Status WriteTensor(const OutputTensor& tensor, uint64_t offset, std::span<const std::byte> bytes,
                     std::optional<RecordWriter>& record);

  Status RunUnit(const ConversionUnit& unit, UnitRunner& runner,
                 std::optional<RecordWriter>& record, Progress& progress,
                 const std::atomic<bool>& stop);

  // What a record has beside the tensors of its units. It is no tensor of the model, so no journal
  // speaks of it and it is made anew each time.
  Status FinishRecord(const UnitGroup& group, std::optional<RecordWriter>& record);

  // Whether the tensor is everywhere as the journal says; gives its bytes to the record.
  Result<bool> IsIntact(size_t tensor_idx, std::optional<RecordWriter>& record, Progress& progress,
                        const std::atomic<bool>& stop);

  void Keep(const ConversionUnit& unit, const Sha256Digest& output, const Sha256Digest& scales,
            const QuantError& error);

  // The byte ranges of the checkpoint that a unit reads.
  void ForEachRange(
      const ConversionUnit& unit,
      FunctionRef<void(const TensorEntry&, uint64_t offset, uint64_t bytes)> visit) const;

  // Experts of a packed tensor are [experts, rows, ...]; a row here is a row of the matrix.
  static uint64_t RowsOf(const TensorEntry& tensor) {
    return tensor.shape.size() >= 3 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0];
  }

  const TensorDirectory& checkpoint_;
  const ConversionPlan& plan_;
  const ConversionOptions& options_;
  OutputFiles outputs_;
  std::optional<FlatIndex> store_;  // Gets its hashes, for distinct records by several threads.
  std::mutex mutex_;                // Guards what follows while threads run.
  Journal journal_;
  std::vector<Sha256Digest> hashes_;  // By tensor of the plan.
  std::vector<QuantError> errors_;    // The same; of a unit's first output.
  std::vector<bool> done_;            // By group of the plan.
  uint64_t resumed_bytes_ = 0;
};

}  // namespace picchio
