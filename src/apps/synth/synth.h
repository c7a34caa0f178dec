// `picchio synth`: a model of a published shape with random weights, straight into a model folder.
//
// All is made in a folder of a temporary name beside the wanted one, synced, and renamed: a run
// that is killed, stopped or out of room leaves no folder that looks like a model. The same options
// give the same bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

inline constexpr double kMaxSkew = 4;
// In the model's folder: from what it was made, as JSON.
inline constexpr std::string_view kSynthName = "synth.json";

struct SynthOptions {
  std::string shape;                     // Of shapes.h.
  std::optional<uint32_t> num_layers{};  // The first so many; not given: all.
  double skew = 0;                       // Of expert popularity, 0 to kMaxSkew.
  bool int8_dense = false;               // Attention matrices as INT8, else as BF16.
  uint64_t seed = 1;
  // Told the size of what will be written, before it begins. May be empty.
  std::function<void(uint64_t bytes)> on_plan{};
};

struct SynthReport {
  std::string model_id;
  uint64_t dense_bytes = 0;  // Of dense.safetensors.
  uint64_t store_bytes = 0;
  double seconds = 0;
  double store_seconds = 0;  // Of them, for making, hashing and writing the store's records.
  bool unbuffered = false;   // The store was written past the page cache.
};

// Makes the model in `folder`, which must not be there or be empty. Checks that the disk has room
// first. `stop` ends it early with kCancelled; nothing is left of it then, nor after a failure.
// What a killed run left under the temporary name goes when the same folder is made again.
Result<SynthReport> Synthesize(const Path& folder, const SynthOptions& options, int num_threads,
                               const std::atomic<bool>& stop);

}  // namespace picchio
