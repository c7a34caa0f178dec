// Turns one unit's source rows into its output bytes, a few MiB at a time.
#pragma once

#include <atomic>
#include <functional>
#include <span>

#include "apps/convert/conversion_plan.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/quant_error.h"
#include "format/tensor_directory.h"

namespace picchio {

struct UnitResult {
  Sha256Digest output;
  Sha256Digest scales;  // Of the unit's second tensor, where it has one.
  QuantError error;
};

// Where output bytes go: `tensor_idx` of the plan, at `offset` within the tensor.
using WriteOutput =
    std::function<Status(size_t tensor_idx, uint64_t offset, std::span<const std::byte> bytes)>;

// Runs units one after the other with buffers of its own; one per thread. Memory: about 4 MiB and
// the scales of one matrix, whatever the tensor's size.
class UnitRunner {
 public:
  UnitRunner(const ConversionPlan& plan, const TensorDirectory& checkpoint, Int4Scheme scheme)
      : plan_(plan), checkpoint_(checkpoint), scheme_(scheme) {}

  // `on_progress` hears of source bytes as they are done; `stop` ends the work between blocks with
  // kCancelled. Fails naming the tensor where its bytes are not valid for the coding.
  Result<UnitResult> Run(const ConversionUnit& unit, const WriteOutput& write,
                         const std::function<void(uint64_t)>& on_progress,
                         const std::atomic<bool>& stop);

 private:
  // One block of rows of a source, coded into out_ (and the scales after those of earlier blocks).
  Status CodeBlock(const ConversionUnit& unit, const SourceRows& rows, uint64_t row,
                   uint64_t num_rows, uint64_t output_row, QuantError& error);
  // The same of what is in in_, and in_scales_ whose scales are valid.
  Status CodeRead(const ConversionUnit& unit, const SourceRows& rows, uint64_t row,
                  uint64_t num_rows, uint64_t output_row, QuantError& error);
  Status ReadRows(const TensorEntry& tensor, uint64_t first_row, uint64_t num_rows,
                  uint64_t row_bytes, std::vector<std::byte>& into);

  const ConversionPlan& plan_;
  const TensorDirectory& checkpoint_;
  Int4Scheme scheme_;
  std::vector<std::byte> in_;
  std::vector<std::byte> in_scales_;
  std::vector<float> decoded_;
  std::vector<std::byte> out_;
  std::vector<float> scales_;  // Of the whole unit.
};

}  // namespace picchio
