#include "apps/convert/record_writer.h"

#include <vector>

#include "base/check.h"
#include "base/crc32c.h"

namespace picchio {

void RecordWriter::Hash(std::span<const std::byte> bytes) {
  if (version_ != RecordVersion::kV2) crc32c_ = Crc32c(bytes, crc32c_);
  sha256_.Update(bytes);
  done_bytes_ += bytes.size();
}

// An earlier run with another plan may have left anything between the parts.
Status RecordWriter::FillUpTo(uint64_t file_offset) {
  const uint64_t begin = entry_.offset + done_bytes_;
  PICCHIO_CHECK(file_offset >= begin);
  if (file_offset == begin) return Status::Ok();
  const std::vector<std::byte> zeros(file_offset - begin);
  PICCHIO_RETURN_IF_ERROR(outputs_.Write(file_idx_, begin, zeros));
  Hash(zeros);
  return Status::Ok();
}

Status RecordWriter::Took(uint64_t file_offset, std::span<const std::byte> bytes) {
  PICCHIO_RETURN_IF_ERROR(FillUpTo(file_offset));
  Hash(bytes);
  return Status::Ok();
}

Status RecordWriter::Write(uint64_t file_offset, std::span<const std::byte> bytes) {
  PICCHIO_RETURN_IF_ERROR(outputs_.Write(file_idx_, file_offset, bytes));
  return Took(file_offset, bytes);
}

Status RecordWriter::Finish(FlatIndex& index) {
  PICCHIO_CHECK(done_bytes_ == entry_.bytes);
  index.SetHashes(place_.layer, place_.expert, crc32c_, sha256_.Finish());
  const std::vector<std::byte> padding(entry_.padded_bytes - entry_.bytes);
  if (padding.empty()) return Status::Ok();
  return outputs_.Write(file_idx_, entry_.offset + entry_.bytes, padding);
}

}  // namespace picchio
