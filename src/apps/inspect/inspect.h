// `picchio inspect MODEL`: what a model folder holds, what a token costs and what a given memory
// would hold of it: what a run would plan with so much of it free. Reads no weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "format/manifest.h"
#include "model/config.h"
#include "model/model_sizes.h"

namespace picchio {

// How a run with this much free memory would divide it.
struct MemoryRow {
  uint64_t memory_bytes = 0;
  uint32_t context = 0;     // Positions; 0 where the model does not fit.
  uint64_t num_slots = 0;   // Of the expert cache; the same.
  double cached_share = 0;  // Of all records.
  // An uncached token reads records_per_token; with experts used evenly, this much is left to read.
  uint64_t read_bytes_per_token = 0;
};

struct Inspection {
  ModelConfig config;
  Manifest manifest;
  ModelSizes sizes;
  std::string expert_scheme;  // As the manifest names it: "int4_mse", "mxfp4", "none" (BF16).
  uint64_t dense_bytes = 0;   // Of all but the experts' records, in memory.
  uint64_t record_bytes = 0;  // One expert.
  uint64_t read_bytes = 0;    // What loading one reads: with its padding, where it has some.
  uint64_t expert_bytes = 0;  // All records.
  uint64_t token_bytes = 0;   // What an uncached token reads.
  uint32_t context = 0;       // The default, where memory does not limit it,
  uint64_t kv_bytes = 0;      // and its keys and values.
  std::vector<MemoryRow> memory;
};

// One row for each of `memory_bytes`, which ascend, up to the first that holds everything. Fails as
// a run of the model would before it looks at the memory.
Result<Inspection> InspectModel(const Path& folder, const std::vector<uint64_t>& memory_bytes);

// The same as a table for people and as JSON for scripts.
std::string InspectionTable(const Inspection& inspection);
std::string InspectionJson(const Inspection& inspection);

}  // namespace picchio
