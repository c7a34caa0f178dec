// One record of the store while its parts are being made: what belongs between and behind them, and
// its hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/convert/output_files.h"
#include "apps/pack/record_check.h"
#include "base/hash.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// The record's bytes come in ascending order; what is left out is written as zeros. One thread.
class RecordWriter {
 public:
  RecordWriter(OutputFiles& outputs, size_t file_idx, const FlatIndex& index, RecordPlace place)
      : outputs_(outputs),
        file_idx_(file_idx),
        version_(index.superblock().version),
        place_(place),
        entry_(*index.Find(place.layer, place.expert)) {}

  // Bytes of the record that the file has at `file_offset` already.
  Status Took(uint64_t file_offset, std::span<const std::byte> bytes);
  // Writes them.
  Status Write(uint64_t file_offset, std::span<const std::byte> bytes);
  uint64_t offset() const { return entry_.offset; }

  // Writes the padding and sets the hashes in the index, which may be done for several records at a
  // time.
  Status Finish(FlatIndex& index);

 private:
  Status FillUpTo(uint64_t file_offset);
  void Hash(std::span<const std::byte> bytes);

  OutputFiles& outputs_;
  const size_t file_idx_;
  const RecordVersion version_;
  const RecordPlace place_;
  const FlatEntry entry_;
  uint64_t done_bytes_ = 0;
  uint32_t crc32c_ = 0;
  Sha256 sha256_;
};

}  // namespace picchio
