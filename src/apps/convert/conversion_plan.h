// What a conversion will write, decided before a byte is read: the files of the model with every
// tensor's place in them, and the units of work that fill those places.
//
// Offsets follow from names and shapes alone, so units run in any order, on any thread, and again
// after a crash, and give the same files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/pack/record_check.h"
#include "base/status.h"
#include "format/dtype.h"
#include "format/expert_record.h"
#include "format/flat_index.h"
#include "format/int4.h"
#include "format/manifest.h"
#include "format/tensor_directory.h"
#include "model/config.h"
#include "model/expected_tensors.h"

namespace picchio {

struct ConversionOptions {
  std::optional<PayloadKind> experts;  // Not given: MXFP4 stays MXFP4, all else becomes INT4.
  bool int8_dense = false;             // Attention and dense MLP matrices; else kept exactly.
  bool int8_head = true;               // Embedding and head; else kept exactly.
  Int4Scheme quantizer = Int4Scheme::kMse;
  bool keep_safetensors = false;  // The experts as safetensors too, beside the store.
};

// How a unit's output bytes come from its source rows.
enum class Coding : uint8_t {
  kCopy,      // The same bytes, which must be finite if they are floats.
  kCopyE8m0,  // The same bytes, which must be valid E8M0 scales.
  kWiden,     // F16 to F32, exactly.
  kMxfp4ToBf16,
  kInt4,  // Codes and scales of groups of 64.
  kInt8,  // Codes and one scale a row.
};

// A contiguous run of rows in a checkpoint tensor.
struct SourceRows {
  const TensorEntry* tensor = nullptr;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
  const TensorEntry* scales =
      nullptr;  // E8M0, of the same rows, where `tensor` holds MXFP4 blocks.
};

struct OutputTensor {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  TensorScheme scheme = TensorScheme::kNone;
  uint64_t bytes = 0;
  size_t file_idx = 0;
  uint64_t offset = 0;  // In the file.
  // An expert's tensor that is kept as safetensors: where the store has it too.
  std::optional<uint64_t> store_offset{};
};

struct ConversionUnit {
  Coding coding = Coding::kCopy;
  TensorClass tensor_class = TensorClass::kNorm;
  std::vector<SourceRows> sources{};  // One after the other, all with `cols` columns.
  uint64_t cols = 0;
  size_t output_idx = 0;
  std::optional<size_t> scales_output_idx{};
  uint64_t source_bytes = 0;
};

// Units that one thread runs one after the other.
struct UnitGroup {
  // A row of a checkpoint tensor that the record has as F32.
  struct Bias {
    const TensorEntry* tensor = nullptr;
    uint64_t row = 0;
    RecordPart part{};
  };

  size_t first_unit = 0;
  size_t last_unit = 0;  // One behind.
  // They fill this record of the store, in the order of its bytes, up to the biases.
  std::optional<RecordPlace> record{};
  std::vector<Bias> biases{};
};

struct OutputFile {
  std::string name;
  std::string header{};  // What stands before the tensors; of a store nothing is known yet.
  uint64_t bytes = 0;    // Of the whole file.
};

struct ConversionPlan {
  std::vector<OutputFile> files;
  std::vector<OutputTensor> tensors;
  std::vector<ConversionUnit> units;
  std::vector<UnitGroup> groups;  // All units, in the order of their source bytes.
  // Where the store has its records, and which file it is; none where no layer has experts.
  std::optional<FlatIndex> store;
  size_t store_file_idx = 0;
  PayloadKind experts = PayloadKind::kInt4;
  uint64_t source_bytes = 0;
  uint64_t output_bytes = 0;
};

// Checks that the checkpoint has exactly the tensors that its config implies, each with the right
// shape and a type that can be converted as asked. The plan borrows from `checkpoint`.
Result<ConversionPlan> PlanConversion(const ModelConfig& config, const TensorDirectory& checkpoint,
                                      const ConversionOptions& options);

}  // namespace picchio
