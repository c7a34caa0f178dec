// A folder that appears whole or not at all.
#pragma once

#include <utility>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

// A folder under a temporary name that Publish gives its own; without that it goes away with the
// object, with all that is in it. Locked, so that two do not make the same one.
class FolderInTheMaking {
 public:
  // Fails with kInvalidArgument where something of that name is there that is no empty folder, with
  // kUnavailable where another process makes it. What a killed one left is removed.
  static Result<FolderInTheMaking> Create(const Path& name);

  FolderInTheMaking(FolderInTheMaking&& other) noexcept
      : folder_(std::exchange(other.folder_, Path())), lock_(std::move(other.lock_)) {}
  FolderInTheMaking& operator=(FolderInTheMaking&&) = delete;
  ~FolderInTheMaking();

  Path path() const { return TemporaryName(folder_); }

  // Synced, and under its own name.
  Status Publish();

 private:
  FolderInTheMaking(Path folder, FolderLock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  Path folder_;  // Empty once it is published.
  FolderLock lock_;
};

}  // namespace picchio
