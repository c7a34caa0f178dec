// `picchio bench io`: how fast this machine's storage gives a store's records, in every way that
// they can be read, at several depths.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/io_way.h"
#include "apps/bench/sample_statistics.h"
#include "apps/doctor/disk_facts.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct IoBenchOptions {
  std::vector<IoWay> ways{std::begin(kIoWays), std::end(kIoWays)};
  std::vector<int> depths = {1, 2, 4, 8, 16, 32, 64};
  int rounds = 3;
  double seconds = 1;  // The most that one measurement takes.
  // Records are chosen, once for all measurements, until they have at least so many bytes.
  uint64_t set_bytes = 1'000'000'000;
  bool register_memory = true;
};

struct IoBenchPoint {
  int depth = 0;
  uint64_t num_reads = 0;  // Of all rounds.
  Spread bytes_per_second{};
  // Of a read, in seconds, over all rounds.
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  Spread cpu_seconds_per_gb{};
  // The part of the bytes that the kernel says came from storage, the least of the rounds; none
  // where it does not say. More than 1 where others read too, or the file system read ahead.
  std::optional<double> storage_share{};
};

struct IoBenchSeries {
  IoWay way = IoWay::kUring;
  std::string unavailable{};  // Why it cannot be measured here; empty where it can.
  std::vector<std::string> notes{};
  uint64_t registered_bytes = 0;  // Most of all measurements.
  std::vector<IoBenchPoint> points{};
  // The depth with the highest rate, and the least at which it is within 5 % of that.
  int peak_depth = 0;
  int plateau_depth = 0;

  const IoBenchPoint* Peak() const;  // Null without points.
  // Whether all its bytes came from storage: 0.99 of them at every depth, by the kernel's count.
  bool FromStorage() const;
};

// Sets peak_depth and plateau_depth from the points.
void FindPeak(IoBenchSeries& series);

struct IoBenchReport {
  std::string store{};
  std::string cpu{};
  std::string kernel{};
  std::string file_system{};
  std::optional<DiskFacts> disk{};
  std::string build{};        // "release" or what makes figures unfair.
  uint64_t record_bytes = 0;  // As read: with their padding.
  uint64_t num_records = 0;   // Of the set.
  uint64_t num_all_records = 0;
  uint32_t block_size = 0;
  uint64_t data_offset = 0;
  double huge_share = 0;  // Of the memory that records are read into.
  std::vector<std::string> notes{};
  std::vector<IoBenchSeries> series{};
  uint64_t num_checked = 0;  // Records compared with the container, in each way; 0: not asked.

  bool whole_store() const { return num_records == num_all_records; }
  // The fastest way past the page cache; null where there is none.
  const IoBenchSeries* Fastest() const;
};

// What will happen, before it does: the set, and an estimate from short first measurements.
struct IoBenchForecast {
  uint64_t set_bytes = 0;
  bool whole_store = false;
  int num_measurements = 0;
  double seconds = 0;
};

// Opens the store, finds out which ways there are, and measures all of them in turn, round by
// round. `stop` ends it with kCancelled. Depths beyond the number of records, or with more memory
// than can be had, are left out with a note. Fails as the store's index does, as the first read
// that fails, and with kInvalidArgument for a list that is empty or numbers below 1.
Result<IoBenchReport> RunIoBench(const Path& store, const IoBenchOptions& options,
                                 const std::atomic<bool>& stop,
                                 const std::function<void(const IoBenchForecast&)>& on_forecast);

}  // namespace picchio
