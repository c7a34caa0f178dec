#include "base/file_calls.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/check.h"

namespace picchio {
namespace {

std::atomic<FileCalls*> g_replacement{nullptr};

}  // namespace

ssize_t FileCalls::Write(int descriptor, std::span<const std::byte> bytes, uint64_t offset) {
  return pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}

int FileCalls::Sync(int descriptor) { return fsync(descriptor); }

int FileCalls::Rename(const char* from, const char* to) { return std::rename(from, to); }

int FileCalls::FreeBytes(const char* path, uint64_t& bytes) {
  struct statvfs info;
  if (statvfs(path, &info) != 0) return -1;
  bytes = uint64_t{info.f_bavail} * info.f_frsize;
  return 0;
}

FileCalls& FileCalls::InUse() {
  static FileCalls system;
  FileCalls* const replacement = g_replacement.load(std::memory_order_acquire);
  return replacement == nullptr ? system : *replacement;
}

ReplacedFileCalls::ReplacedFileCalls(FileCalls& calls) {
  PICCHIO_CHECK(g_replacement.exchange(&calls) == nullptr);
}

ReplacedFileCalls::~ReplacedFileCalls() { g_replacement = nullptr; }

}  // namespace picchio
