// The proof beside the figures: that what was read so fast is what the model has.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "apps/bench/io_way.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

// Reads every record of the store in each of these ways, as a run would read it, and compares it
// with the model's safetensors files; with the hashes in its manifest where it has its experts in a
// store alone. Returns the number of records. Fails with kCorrupt, naming way, expert and byte, at
// the first difference; a way that does not work here with its reason.
Result<uint64_t> CheckRecordsInEveryWay(const Path& store, const Path& model_folder,
                                        std::span<const IoWay> ways, const std::atomic<bool>& stop);

}  // namespace picchio
