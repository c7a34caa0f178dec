#include "apps/doctor/measure_read_rate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "apps/doctor/disk_counters.h"
#include "apps/doctor/machine_facts.h"
#include "apps/inspect/inspect_store.h"
#include "apps/progress.h"
#include "base/huge_pages.h"
#include "base/page_memory.h"
#include "format/flat_superblock.h"
#include "io/device_file.h"
#include "io/read_rate.h"

namespace picchio {
namespace {

constexpr uint64_t kLargeBytes = 64_MiB;
constexpr size_t kDepth = 16;
constexpr uint64_t kUsualReadBytes = 2654208;  // A record of Qwen3-30B-A3B.
constexpr uint64_t kLeastMemory = 32_MiB;      // Less does not come in whole huge pages.

// A file without a name: gone with its descriptor.
Result<Descriptor> OpenNameless(const Path& folder) {
#ifdef O_TMPFILE
  const int nameless = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return Descriptor(nameless);
#endif
  // File systems that have no such thing: one with a name, for a moment.
  std::string name = (folder / "picchio-doctor-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return ErrnoError(errno, "cannot write a file in " + PathText(folder));
  unlink(name.c_str());
  return Descriptor(named);
}

Status Stopped(const ReadRateOptions& options) {
  const bool stopped = options.stop != nullptr && options.stop->load(std::memory_order_relaxed);
  return stopped ? Status(Code::kCancelled, "stopped") : Status::Ok();
}

// Nothing that a drive or a file system could make smaller.
Status FillWithNoise(int descriptor, uint64_t bytes, const ReadRateOptions& options) {
  std::vector<uint64_t> block(1_MiB / sizeof(uint64_t));
  std::mt19937_64 random(1);
  Progress progress("writing a temporary file", bytes);
  for (uint64_t at = 0; at < bytes; at += 1_MiB) {
    PICCHIO_RETURN_IF_ERROR(Stopped(options));
    for (uint64_t& word : block) word = random();
    const auto* data = reinterpret_cast<const char*>(block.data());
    for (uint64_t done = 0; done < 1_MiB;) {
      const ssize_t written =
          pwrite(descriptor, data + done, 1_MiB - done, static_cast<off_t>(at + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return ErrnoError(errno, "cannot write the temporary file");
      done += static_cast<uint64_t>(written);
    }
    progress.Add(1_MiB);
  }
  // Dirty pages would be written in the middle of the measurement, and answer reads.
  if (fsync(descriptor) != 0) return ErrnoError(errno, "cannot write the temporary file");
  (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  return Status::Ok();
}

struct Reads {
  uint64_t read_bytes = 0;
  uint64_t max_alignment = 64_KiB;
};

// A store's, where the file is one.
Reads ReadsOf(const Path& file, const ReadRateOptions& options) {
  Reads reads{.read_bytes = options.read_bytes.value_or(kUsualReadBytes)};
  const auto index = InspectStore(file);
  if (!index.has_value()) return reads;
  if (!options.read_bytes) reads.read_bytes = index->padded_record_bytes();
  reads.max_alignment = index->superblock().block_size;
  return reads;
}

Result<MeasuredReadRate> Measure(const Path& file, const std::string& source,
                                 const ReadRateOptions& options) {
  const Reads reads = ReadsOf(file, options);
  PICCHIO_ASSIGN_OR_RETURN(const OpenedDevice opened,
                           OpenDevice({&file, 1}, {.kind = options.kind,
                                                   .max_alignment = reads.max_alignment,
                                                   .probe_read_bytes = reads.read_bytes}));
  BlockDevice& device = *opened.device;
  const ReadLoad load{
      .read_bytes = RoundUp(reads.read_bytes, device.alignment()),
      .depth = options.burst_reads > 0 ? options.burst_reads : kDepth,
      .max_time = std::chrono::nanoseconds(static_cast<int64_t>(options.seconds * 1e9)),
      .stop = options.stop,
      .pause = options.burst_reads > 0 ? options.pause : std::chrono::nanoseconds(0)};
  if (device.file_bytes(0) < load.read_bytes) {
    return Error(Code::kInvalidArgument, "{} has {} bytes, too few to measure reads of {}", source,
                 device.file_bytes(0), load.read_bytes);
  }
  PICCHIO_ASSIGN_OR_RETURN(const PageMemory memory, PageMemory::Allocate(std::max<uint64_t>(
                                                        ReadLoadMemory(load), kLeastMemory)));
  std::optional<DiskCounters> counters;
  if (const auto place = PlaceOf(file); place.has_value()) {
    counters.emplace(place->major, place->minor);
  }
  const auto before = counters ? counters->Read() : DiskCounters::Reading();
  PICCHIO_ASSIGN_OR_RETURN(const ReadRate rate, MeasureReadRate(device, load, memory.bytes()));
  PICCHIO_RETURN_IF_ERROR(Stopped(options));
  const auto after = counters ? counters->Read() : DiskCounters::Reading();
  MeasuredReadRate measured{.bytes_per_second = rate.BytesPerSecond(),
                            .source = source,
                            .way = opened.choice,
                            .read_bytes = load.read_bytes,
                            .huge_share = static_cast<double>(HugeBytes(memory.bytes())) /
                                          static_cast<double>(memory.size())};
  if (const auto bytes = DiskCounters::BytesBetween(before, after); bytes && rate.bytes > 0) {
    measured.storage_share = static_cast<double>(*bytes) / static_cast<double>(rate.bytes);
  }
  return measured;
}

}  // namespace

std::optional<Path> LargeFileAt(const Path& path) {
  std::error_code error;
  if (std::filesystem::is_block_file(path, error)) return path;
  const auto bytes_of = [&error](const Path& file) -> uint64_t {
    if (!FileExists(file)) return 0;
    const uint64_t bytes = std::filesystem::file_size(file, error);
    return error ? 0 : bytes;
  };
  if (!std::filesystem::is_directory(path, error)) {
    return bytes_of(path) >= kLargeBytes ? std::optional(path) : std::nullopt;
  }
  const Path store = path / kFlatStoreName;
  if (bytes_of(store) >= kLargeBytes) return store;
  std::optional<Path> largest;
  uint64_t most = kLargeBytes - 1;
  const auto names = ListFiles(path);
  if (!names.has_value()) return std::nullopt;
  for (const std::string& name : *names) {
    const uint64_t bytes = bytes_of(path / name);
    if (bytes <= most || access((path / name).c_str(), R_OK) != 0) continue;
    most = bytes;
    largest = path / name;
  }
  return largest;
}

Result<MeasuredReadRate> MeasureStorageReadRate(const Path& path, const ReadRateOptions& options) {
  if (!SomethingExists(path)) return Error(Code::kNotFound, "{} does not exist", PathText(path));
  if (const auto file = LargeFileAt(path)) return Measure(*file, PathText(*file), options);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  const Path folder = is_folder ? path : ParentOf(path);
  PICCHIO_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(folder));
  const uint64_t bytes = std::min(options.temporary_bytes, free / 4) / 1_MiB * 1_MiB;
  if (bytes < kLargeBytes) {
    return Error(Code::kResourceExhausted, "{} has {} bytes free, too few for a measurement",
                 PathText(folder), free);
  }
  PICCHIO_ASSIGN_OR_RETURN(const Descriptor nameless, OpenNameless(folder));
  PICCHIO_RETURN_IF_ERROR(FillWithNoise(nameless.number(), bytes, options));
  // Opened again by its number: another descriptor of the same file.
  PICCHIO_ASSIGN_OR_RETURN(MeasuredReadRate rate,
                           Measure(fmt::format("/proc/self/fd/{}", nameless.number()),
                                   "a temporary file in " + PathText(folder), options));
  rate.temporary = true;
  return rate;
}

}  // namespace picchio
