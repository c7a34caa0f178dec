#include "apps/hash_range.h"

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace picchio {

Result<Sha256Digest> HashRange(const RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                               VisitBlock visit, const std::atomic<bool>& stop) {
  std::vector<std::byte> block(std::min<uint64_t>(bytes, 4_MiB));
  Sha256 hash;
  for (uint64_t done = 0; done < bytes;) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    const auto part = std::span(block).first(std::min<uint64_t>(block.size(), bytes - done));
    PICCHIO_RETURN_IF_ERROR(file.ReadAt(offset + done, part));
    hash.Update(part);
    PICCHIO_RETURN_IF_ERROR(visit(done, part));
    done += part.size();
  }
  return hash.Finish();
}

Result<Sha256Digest> HashRange(const RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                               Progress& progress, const std::atomic<bool>& stop) {
  const auto report = [&](uint64_t, std::span<const std::byte> part) {
    progress.Add(part.size());
    return Status::Ok();
  };
  return HashRange(file, offset, bytes, VisitBlock(report), stop);
}

}  // namespace picchio
