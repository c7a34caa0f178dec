// One stretch of a file on its way into memory: which request comes next, and what an answer means.
// No system calls: threads and io_uring both ask it, so that they agree about everything that can
// happen to a read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "io/device_statistics.h"

namespace picchio {

// Linux moves at most 0x7ffff000 bytes in one request and macOS refuses INT_MAX: stay below both.
inline constexpr uint64_t kMaxRequestBytes = 1_GiB;

// What a transfer must know of its file.
struct TransferFile {
  std::string name{};
  // Of address, offset and length of unbuffered requests; 0 where the file has no such access.
  uint64_t direct_alignment = 0;
};

// Continues short and interrupted requests. What fails unbuffered is asked for once more through
// the page cache, from where it stopped, and only a failure there is one. What no unbuffered
// request can fetch, the last and partial block of a file above all, is read buffered from the
// start. One thread at a time. `file` and the bytes outlive it.
class Transfer {
 public:
  struct Request {
    bool direct = false;
    uint64_t offset = 0;
    std::span<std::byte> out{};  // Not empty.
  };

  Transfer() = default;
  // `max_request_bytes` is a multiple of the file's alignment, and at least that.
  Transfer(const TransferFile* file, uint64_t offset, std::span<std::byte> out,
           uint64_t max_request_bytes = kMaxRequestBytes)
      : file_(file),
        offset_(offset),
        left_(out),
        max_request_bytes_(max_request_bytes),
        direct_(file->direct_alignment > 0) {}

  // All bytes are there, or status() says why they never will be.
  bool finished() const { return left_.empty() || !status_.ok(); }
  const Status& status() const { return status_; }  // Names the file and the byte.

  // What to ask for. Not when finished.
  Request Next() const;
  // What the system answered to Next(): a number of bytes, 0 at the end of the file, or a negated
  // errno.
  void Answered(int64_t result, DeviceStatistics& statistics);

 private:
  const TransferFile* file_ = nullptr;
  uint64_t offset_ = 0;
  std::span<std::byte> left_{};
  uint64_t max_request_bytes_ = kMaxRequestBytes;
  bool direct_ = false;  // As long as nothing spoke against it.
  int num_stalls_ = 0;   // Interruptions since the last byte came.
  Status status_{};
};

}  // namespace picchio
