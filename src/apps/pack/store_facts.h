// What the store of a model is: its superblock and which experts it has, from the config alone.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "format/flat_index.h"
#include "format/flat_superblock.h"
#include "model/config.h"

namespace picchio {

struct StoreOptions {
  RecordVersion version = RecordVersion::kV2;
  uint32_t block_size = kMinFlatBlock;
  uint32_t num_layers = ~uint32_t{0};  // Only the experts of the first so many: a partial store.
};

// The version that a model's store has unless another is asked for: what the oldest readers know
// where it can hold the experts.
inline RecordVersion UsualStoreVersion(PayloadKind kind) {
  return kind == PayloadKind::kInt4 ? RecordVersion::kV2 : RecordVersion::kV3;
}

// Where every record of such a store lies; hashes and model id are still to be set. Version 3
// carries the biases of a model whose experts have some. Fails with kUnsupported where version 2
// cannot hold the experts, and with kInvalidArgument where no expert is left or the block size is
// none.
Result<FlatIndex> PlaceStore(const ModelConfig& config, PayloadKind kind,
                             const StoreOptions& options);

}  // namespace picchio
