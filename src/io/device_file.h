// One file or block device as the device layer reads it: through the page cache, past it, or both.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "io/block_device.h"
#include "io/device_statistics.h"
#include "io/request_limits.h"
#include "io/transfer.h"
#include "io/transfer_faults.h"

namespace picchio {

// An open descriptor that closes itself. Move-only.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }

 private:
  int number_;
};

// Immutable once open; ReadAt may come from any thread, several at a time.
class DeviceFile final : public RandomAccessFile {
 public:
  struct Options {
    bool direct =
        false;  // Past the page cache where that is possible; a note says where it is not.
    uint64_t max_alignment = 64_KiB;                // What the caller's reads can keep to.
    uint64_t max_request_bytes = kMaxRequestBytes;  // At least max_alignment; less is for tests.
    std::shared_ptr<TransferFaults> faults{};       // For tests; null: none.
  };

  // Fails as opening a file fails, with kInvalidArgument for what is no file and no block device.
  // `statistics` outlives the file.
  static Result<std::unique_ptr<DeviceFile>> Open(const Path& path, const Options& options,
                                                  DeviceStatistics* statistics);

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return transfer_file_.name; }
  // One request after the other, each to its end.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

  // For those who issue the requests themselves.
  const TransferFile& transfer_file() const { return transfer_file_; }
  const RequestLimits& limits() const { return limits_; }
  int buffered_descriptor() const { return buffered_.number(); }
  int direct_descriptor() const { return direct_.number(); }  // -1 where there is none.

 private:
  DeviceFile(const Options& options, DeviceStatistics* statistics)
      : options_(options), statistics_(statistics) {}

  const Options options_;
  DeviceStatistics* const statistics_;
  TransferFile transfer_file_;
  RequestLimits limits_;
  uint64_t size_ = 0;
  Descriptor buffered_;
  Descriptor direct_;
};

// The files of a device, at least one, in order; fails with kInvalidArgument for none.
Result<std::vector<std::unique_ptr<DeviceFile>>> OpenDeviceFiles(std::span<const Path> paths,
                                                                 const DeviceFile::Options& options,
                                                                 DeviceStatistics* statistics);

// What reads of all of them must keep to: the largest alignment among them, 1 where no file is read
// unbuffered.
uint64_t AlignmentOf(std::span<const std::unique_ptr<DeviceFile>> files);

// A read of one of the files by the calling thread, refused where it does not keep to `alignment`.
Status ReadAligned(std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
                   const DeviceRead& read);

// What to call a device of these files: "a", "a and 2 more".
std::string NameOfFiles(const std::string& first, size_t num_files);

}  // namespace picchio
