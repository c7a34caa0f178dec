#include "apps/verify/verify.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "apps/model_folder.h"
#include "apps/progress.h"
#include "apps/work_queue.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/units.h"
#include "format/tensor_directory.h"

namespace picchio {
namespace {

// Hashes [offset, offset + bytes) of a file, a block at a time.
Result<Sha256Digest> HashRange(const RandomAccessFile& file, uint64_t offset, uint64_t bytes,
                               Progress& progress, const std::atomic<bool>& stop) {
  std::vector<std::byte> block(std::min<uint64_t>(bytes, 4_MiB));
  Sha256 hash;
  for (uint64_t done = 0; done < bytes;) {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    const auto part = std::span(block).first(std::min<uint64_t>(block.size(), bytes - done));
    PICCHIO_RETURN_IF_ERROR(file.ReadAt(offset + done, part));
    hash.Update(part);
    progress.Add(part.size());
    done += part.size();
  }
  return hash.Finish();
}

Status CheckHash(const Sha256Digest& found, const Sha256Digest& expected) {
  if (found == expected) return Status::Ok();
  return Error(Code::kCorrupt, "SHA-256 {}, the manifest says {}", found.Hex(), expected.Hex());
}

// One thing to hash: a whole companion file, a container's header or a tensor.
struct Item {
  std::string what;  // "tensor x in file y", for messages.
  const RandomAccessFile* file;
  uint64_t offset;
  uint64_t bytes;
  const Sha256Digest* expected;
};

// The header's bytes: up to where the first tensor begins.
uint64_t DataStart(const TensorDirectory& tensors, size_t file_idx) {
  uint64_t start = tensors.file_bytes(file_idx);
  for (const TensorEntry& tensor : tensors.tensors()) {
    if (tensor.file_idx == file_idx) start = std::min(start, tensor.offset);
  }
  return start;
}

}  // namespace

Result<VerifyReport> VerifyModel(const Path& folder, int num_threads,
                                 const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  PICCHIO_ASSIGN_OR_RETURN(const Manifest manifest, LoadModelManifest(folder));

  std::vector<File> files;
  std::vector<Item> items;
  files.reserve(manifest.files.size() + manifest.containers.size());
  for (const ManifestFile& listed : manifest.files) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(folder / listed.name));
    if (file.size() != listed.bytes) {
      return Error(Code::kCorrupt, "{} has {} bytes, the manifest says {}", file.name(),
                   file.size(), listed.bytes);
    }
    files.push_back(std::move(file));
    items.push_back({listed.name, &files.back(), 0, listed.bytes, &listed.sha256});
  }
  PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory tensors, OpenTensors(folder, manifest));
  const size_t first_container = files.size();
  for (size_t i = 0; i < manifest.containers.size(); ++i) {
    const ManifestContainer& listed = manifest.containers[i];
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(folder / listed.name));
    files.push_back(std::move(file));
    items.push_back({"the header of " + listed.name, &files.back(), 0, DataStart(tensors, i),
                     &listed.header_sha256});
  }
  for (const ManifestTensor& listed : manifest.tensors) {
    const TensorEntry& found = *tensors.Find(listed.name);
    items.push_back({"tensor " + Quoted(listed.name) + " in " + listed.file,
                     &files[first_container + found.file_idx], found.offset, found.bytes,
                     &listed.sha256});
  }

  VerifyReport report{.num_tensors = manifest.tensors.size(),
                      .num_files = manifest.files.size() + manifest.containers.size(),
                      .model_id = manifest.model_id().Hex()};
  for (const Item& item : items) report.bytes += item.bytes;
  Progress progress("verifying", report.bytes);
  std::vector<Status> faults(items.size());
  PICCHIO_RETURN_IF_ERROR(RunOnThreads(num_threads, items.size(), [&](size_t i, int) -> Status {
    const Item& item = items[i];
    const auto hash = HashRange(*item.file, item.offset, item.bytes, progress, stop);
    if (!hash && hash.error().code() == Code::kCancelled) return hash.error();
    faults[i] = hash ? CheckHash(*hash, *item.expected) : hash.error();
    return Status::Ok();
  }));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const auto is_fault = [](const Status& status) { return !status.ok(); };
  const auto first = std::ranges::find_if(faults, is_fault);
  if (first == faults.end()) return report;
  const auto num_faults = std::ranges::count_if(faults, is_fault);
  Status fault = first->WithContext(items[static_cast<size_t>(first - faults.begin())].what);
  const std::string more = num_faults > 1 ? fmt::format(" ({} more faults)", num_faults - 1) : "";
  return Status(fault.code(),
                fmt::format("{}{}: copy the file again or convert the checkpoint again",
                            fault.message(), more));
}

}  // namespace picchio
