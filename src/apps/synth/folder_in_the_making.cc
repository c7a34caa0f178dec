#include "apps/synth/folder_in_the_making.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace picchio {
namespace {

// Fails unless a folder of that name could be put there at the end.
Status CheckTarget(const Path& folder) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(folder, error);
  if (!std::filesystem::exists(status)) return Status::Ok();
  // An empty folder may go; remove() refuses one that is a mount point.
  if (std::filesystem::is_directory(status) && std::filesystem::is_empty(folder, error) &&
      std::filesystem::remove(folder, error)) {
    return Status::Ok();
  }
  return Error(Code::kInvalidArgument,
               "{} is there already: name a folder that is not (the model is made beside it and "
               "takes its place when it is whole)",
               PathText(folder));
}

}  // namespace

Result<FolderInTheMaking> FolderInTheMaking::Create(const Path& name) {
  // A slash at the end names the same folder, and would put the temporary one into it.
  const Path folder = name.has_filename() ? name : name.parent_path();
  PICCHIO_RETURN_IF_ERROR(CheckTarget(folder));
  const Path temporary = TemporaryName(folder);
  PICCHIO_RETURN_IF_ERROR(MakeFolders(temporary));
  Result<FolderLock> lock = FolderLock::Take(temporary);
  if (!lock && lock.error().code() == Code::kUnavailable) {
    return Error(Code::kUnavailable, "another picchio is making {}: wait for it", PathText(folder));
  }
  PICCHIO_RETURN_IF_ERROR(lock.status());
  PICCHIO_RETURN_IF_ERROR(CheckTarget(folder));  // Whoever had the lock may have put it there.
  // The folder itself stays, for the lock is on it.
  PICCHIO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(temporary));
  std::error_code ignored;
  for (const std::string& left : names) std::filesystem::remove(temporary / left, ignored);
  return FolderInTheMaking(folder, std::move(lock).value());
}

FolderInTheMaking::~FolderInTheMaking() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(path(), ignored);
}

Status FolderInTheMaking::Publish() {
  PICCHIO_RETURN_IF_ERROR(SyncFolder(path()));
  PICCHIO_RETURN_IF_ERROR(RenameDurably(path(), folder_));
  folder_.clear();
  return Status::Ok();
}

}  // namespace picchio
