#include "base/atomic_file.h"

#include <span>
#include <system_error>

namespace picchio {

Path TemporaryName(const Path& path) {
  Path temporary = path;
  temporary += kTemporarySuffix;
  return temporary;
}

Result<AtomicFile> AtomicFile::Create(const Path& path) {
  std::error_code error;
  Path target = path;
  if (std::filesystem::is_symlink(path, error)) {
    target = std::filesystem::weakly_canonical(path, error);
    if (error) return ErrnoError(error.value(), "cannot follow the link " + PathText(path));
  }
  if (std::filesystem::exists(target, error) && !FileExists(target)) {
    return Error(Code::kInvalidArgument, "cannot write {}: it is not a regular file",
                 PathText(path));
  }
  PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForWrite(TemporaryName(target)));
  AtomicFile atomic(std::move(target), std::move(file));
  PICCHIO_RETURN_IF_ERROR(atomic.file_.Resize(0));
  return atomic;
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (open_) std::filesystem::remove(TemporaryName(path_), ignored);
}

Status AtomicFile::Commit() {
  PICCHIO_RETURN_IF_ERROR(file_.Sync());
  PICCHIO_RETURN_IF_ERROR(RenameDurably(TemporaryName(path_), path_));
  open_ = false;
  return Status::Ok();
}

Status WriteFileAtomically(const Path& path, std::string_view bytes) {
  PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  PICCHIO_RETURN_IF_ERROR(file.file().WriteAt(0, std::as_bytes(std::span(bytes))));
  return file.Commit();
}

}  // namespace picchio
