// `picchio pack`: a model's experts out of its safetensors files into an aligned store.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/pack/store_facts.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"

namespace picchio {

struct PackOptions {
  std::optional<Path> output{};            // Not given: experts.picchioflat in the model's folder.
  std::optional<RecordVersion> version{};  // Not given: UsualStoreVersion.
  uint32_t block_size = kMinFlatBlock;
  std::optional<uint32_t> num_layers{};  // The first so many; not given: all.
  bool read_back = false;                // Reads what was written and checks it.
};

struct PackReport {
  Path store;
  RecordVersion version = RecordVersion::kV2;
  uint64_t num_records = 0;
  uint64_t num_all_records = 0;  // That a complete store has.
  uint64_t store_bytes = 0;
  Sha256Digest index_sha256;
  double seconds = 0;
  bool unbuffered = false;
  bool read_back = false;
};

// Packs with as many threads hashing as `num_threads`. The old store stays until the new one is
// whole and synced (store_file.h), and the manifest lists whichever is in the folder
// (store_listing.h). Memory: some runs of records of 8 MiB, or of single larger ones. `stop` ends
// it early with kCancelled; nothing is left of it then, nor after a failure.
Result<PackReport> Pack(const Path& model_folder, const PackOptions& options, int num_threads,
                        const std::atomic<bool>& stop);

}  // namespace picchio
