// Files that appear whole or not at all.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// What a file is called until it is whole: beside its own name, so that a rename finishes it.
inline constexpr std::string_view kTemporarySuffix = ".picchio-tmp";
Path TemporaryName(const Path& path);

// A new, empty file of this name, locked as long as it is open. What a killed process left there
// goes, be it a link. Nothing where a living process has the file (TryLock).
Result<std::optional<File>> TakeTemporary(const Path& name);

// A file under a temporary name that Commit gives its own. Without a Commit it goes away with the
// object; after a crash at any moment the old file is there, or the new one, whole. Several may be
// made of one path at a time, by one process or more: each is whole, and the last one that is
// committed stays. Move-only.
class AtomicFile {
 public:
  // Starts empty. A link is followed, so that what it points to is replaced and not the link. Fails
  // where the path is something other than a file (a folder, a device), as /dev/null is.
  static Result<AtomicFile> Create(const Path& path);

  AtomicFile(AtomicFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::move(other.temporary_)),
        file_(std::move(other.file_)),
        open_(std::exchange(other.open_, false)) {}
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  File& file() { return file_; }
  // Syncs the file, renames it, syncs the folder.
  Status Commit();

 private:
  AtomicFile(Path path, Path temporary, File file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  Path path_;
  Path temporary_;
  File file_;
  bool open_ = true;
};

// All of a small file at once.
Status WriteFileAtomically(const Path& path, std::string_view bytes);

}  // namespace picchio
