#include "apps/convert/output_files.h"

#include <filesystem>
#include <system_error>

#include "base/atomic_file.h"
#include "base/human.h"
#include "base/units.h"

namespace picchio {
namespace {

// Left over for the manifest, the tokenizer's files and the file system's own books.
constexpr uint64_t kSpareBytes = 64_MiB;

}  // namespace

Result<OutputFiles> OutputFiles::Open(const Path& folder, const ConversionPlan& plan) {
  OutputFiles outputs;
  outputs.folder_ = folder;
  uint64_t needed = kSpareBytes;
  for (const OutputFile& file : plan.files) {
    const Path temporary = TemporaryName(folder / file.name);
    // A crash between two renames of Publish: the file goes back to being unfinished.
    if (!FileExists(temporary) && FileExists(folder / file.name)) {
      PICCHIO_RETURN_IF_ERROR(RenameDurably(folder / file.name, temporary));
    }
    PICCHIO_ASSIGN_OR_RETURN(File opened, File::OpenForWrite(temporary));
    PICCHIO_ASSIGN_OR_RETURN(const uint64_t allocated, opened.AllocatedBytes());
    if (allocated < file.bytes) needed += file.bytes - allocated;
    outputs.names_.push_back(file.name);
    outputs.files_.push_back(std::move(opened));
  }
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(folder));
  if (needed > free) {
    return Error(Code::kResourceExhausted,
                 "{} has {} free, and the converted model needs {} more: make room, or choose a "
                 "folder on another disk",
                 PathText(folder), FormatBytes(free), FormatBytes(needed));
  }
  for (size_t i = 0; i < plan.files.size(); ++i) {
    File& file = outputs.files_[i];
    PICCHIO_RETURN_IF_ERROR(file.Reserve(plan.files[i].bytes));
    PICCHIO_RETURN_IF_ERROR(file.Resize(plan.files[i].bytes));
    PICCHIO_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(plan.files[i].header))));
  }
  return outputs;
}

Status OutputFiles::Write(size_t file_idx, uint64_t offset, std::span<const std::byte> bytes) {
  File& file = files_[file_idx];
  PICCHIO_RETURN_IF_ERROR(file.WriteAt(offset, bytes));
  file.StartWriteback(offset, bytes.size());
  return Status::Ok();
}

Status OutputFiles::Publish() {
  for (File& file : files_) PICCHIO_RETURN_IF_ERROR(file.Sync());
  for (const std::string& name : names_) {
    PICCHIO_RETURN_IF_ERROR(RenameDurably(TemporaryName(folder_ / name), folder_ / name));
  }
  return Status::Ok();
}

}  // namespace picchio
