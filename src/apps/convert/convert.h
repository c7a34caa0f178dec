// `picchio convert`: a published checkpoint into a model folder.
//
// Safe at every moment: the outputs have temporary names until all are whole and synced, and the
// manifest, which makes the folder a model, is written last. A conversion that was killed goes on
// where it was when the same command runs again: what its journal says is written is hashed where
// it lies, and only what is missing or differs is made anew.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "apps/convert/conversion_plan.h"
#include "base/file.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "format/quant_error.h"

namespace picchio {

struct ConversionReport {
  std::string model_id;
  uint64_t source_bytes = 0;
  uint64_t output_bytes = 0;
  uint64_t resumed_bytes = 0;  // Of the source, done by an earlier run.
  double seconds = 0;
  // What quantising lost, by the class of tensor; classes that were kept exactly are absent.
  struct ClassError {
    TensorClass tensor_class;
    QuantError error;
  };
  std::vector<ClassError> errors;
  std::vector<std::string> notes;  // What the user should know, a sentence each.
};

// Converts with `num_threads` threads. `stop` ends it early, resumable, with kCancelled. `note`
// hears the report's notes before the work begins: who misses a file would rather know it then.
Result<ConversionReport> Convert(
    const Path& checkpoint_folder, const Path& model_folder, const ConversionOptions& options,
    int num_threads, const std::atomic<bool>& stop,
    FunctionRef<void(const std::string&)> note = [](const std::string& /*sentence*/) {});

}  // namespace picchio
