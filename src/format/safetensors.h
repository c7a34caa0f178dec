// The safetensors container: u64 little-endian header length, a JSON header that gives every
// tensor's name, dtype, shape and place, then the tensors' bytes, back to back, to the end of the
// file. (huggingface/safetensors, README, "Format".)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "format/dtype.h"

namespace picchio {

// The cap of the reference implementation; a larger header is refused before it is read.
inline constexpr uint64_t kMaxSafetensorsHeader = 100_MiB;

struct TensorInfo {
  std::string name;  // UTF-8, not empty, no control bytes.
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;  // Of its first byte, from the start of the file.
  uint64_t bytes = 0;   // The product of the shape times the dtype's size.
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // By offset.
  uint64_t data_start = 0;          // From the start of the file.
};

// Reads and checks the header; the data is not touched, but the file's size must be exactly what
// the header says. On success the tensors' names are unique and their bytes cover the file from
// data_start to its end, once. Every message names the file, and the tensor where there is one.
//
// Fails with kUnsupported for another kind of file (GGUF, PyTorch, Git LFS pointer), another dtype
// and unknown fields; with kCorrupt for everything else: a lying length, a truncated file, gaps,
// overlaps, wrong sizes.
//
// O(n log n) in the number of tensors; memory proportional to the header.
Result<SafetensorsHeader> ReadSafetensorsHeader(const RandomAccessFile& file);

// The header's JSON alone. `data_bytes` is the size of what follows it, `data_start` where that is
// in the file that messages call `where`.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_start,
                                                 uint64_t data_bytes, std::string_view where);

// Places the tensors in the given order from the first multiple of `alignment` (a power of two, at
// least 8) that lies behind the header, sets their offset and bytes, and returns the file's bytes
// up to there: length, JSON, spaces. The same tensors give the same bytes. Fails with
// kInvalidArgument where a name is empty, not UTF-8, has control bytes or stands twice, or where
// sizes overflow.
Result<std::string> MakeSafetensorsHeader(std::span<TensorInfo> tensors, uint64_t alignment);

}  // namespace picchio
