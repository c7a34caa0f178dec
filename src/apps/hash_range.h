// The hash of a part of a file, however large it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/progress.h"
#include "base/file.h"
#include "base/function_ref.h"
#include "base/hash.h"
#include "base/status.h"

namespace picchio {

// SHA-256 of [offset, offset + bytes), read a block at a time and reported to `progress` so.
// kCancelled once `stop` is set. Any thread.
Result<Sha256Digest> HashRange(const RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                               Progress& progress, const std::atomic<bool>& stop);

// The same for one who wants the bytes too: each block goes to `visit`, with where it begins within
// the range; a failure of it ends the reading.
using VisitBlock = FunctionRef<Status(uint64_t at, std::span<const std::byte> bytes)>;
Result<Sha256Digest> HashRange(const RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                               VisitBlock visit, const std::atomic<bool>& stop);

}  // namespace picchio
