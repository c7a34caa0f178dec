#include "base/atomic_file.h"

#include <cerrno>
#include <span>
#include <system_error>

namespace picchio {

Path TemporaryName(const Path& path) {
  Path temporary = path;
  temporary += kTemporarySuffix;
  return temporary;
}

Result<std::optional<File>> TakeTemporary(const Path& name) {
  while (true) {
    Result<File> made = File::CreateNew(name);
    const bool is_new = made.has_value();
    if (!is_new && made.error().native_error() != EEXIST) return made.error();
    std::error_code error;
    // Never opened: what it leads to is somebody else's.
    if (!is_new && std::filesystem::is_symlink(name, error)) {
      std::filesystem::remove(name, error);
      if (error) return ErrnoError(error.value(), "cannot remove the link " + PathText(name));
      continue;
    }
    if (!is_new) made = File::OpenForWrite(name);
    if (!made && made.error().native_error() == ELOOP) continue;
    PICCHIO_ASSIGN_OR_RETURN(File file, std::move(made));
    // Whoever takes a file for a leftover locks it before it removes it.
    PICCHIO_ASSIGN_OR_RETURN(const bool locked, file.TryLock());
    if (!locked) return std::optional<File>();
    PICCHIO_ASSIGN_OR_RETURN(const bool in_place, file.IsAt(name));
    if (!in_place) continue;
    if (is_new) return std::optional<File>(std::move(file));
    // A new file in its place, for this one may have other names, of other people's files.
    std::filesystem::remove(name, error);
    if (error) return ErrnoError(error.value(), "cannot remove " + PathText(name));
  }
}

Result<AtomicFile> AtomicFile::Create(const Path& path) {
  PICCHIO_ASSIGN_OR_RETURN(Path target, FollowLinks(path));
  std::error_code error;
  if (std::filesystem::exists(target, error) && !FileExists(target)) {
    return Error(Code::kInvalidArgument, "cannot write {}: it is not a regular file",
                 PathText(path));
  }
  constexpr int kMaxWriters = 16;  // At the same time.
  for (int i = 1; i <= kMaxWriters; ++i) {
    Path numbered = target;
    if (i > 1) numbered += fmt::format(".{}", i);
    Path temporary = TemporaryName(numbered);
    PICCHIO_ASSIGN_OR_RETURN(std::optional<File> file, TakeTemporary(temporary));
    if (file) return AtomicFile(std::move(target), std::move(temporary), std::move(*file));
  }
  return Error(Code::kUnavailable, "{} others are writing {}: try again later", kMaxWriters,
               PathText(path));
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (open_) std::filesystem::remove(temporary_, ignored);
}

Status AtomicFile::Commit() {
  PICCHIO_RETURN_IF_ERROR(file_.Sync());
  PICCHIO_RETURN_IF_ERROR(RenameDurably(temporary_, path_));
  open_ = false;
  return Status::Ok();
}

Status WriteFileAtomically(const Path& path, std::string_view bytes) {
  PICCHIO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  PICCHIO_RETURN_IF_ERROR(file.file().WriteAt(0, std::as_bytes(std::span(bytes))));
  return file.Commit();
}

}  // namespace picchio
