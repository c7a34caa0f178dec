#include "apps/bench/io_benchmark.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "apps/doctor/disk_counters.h"
#include "apps/doctor/machine_facts.h"
#include "apps/pack/record_check.h"
#include "apps/progress.h"
#include "base/huge_pages.h"
#include "base/human.h"
#include "base/page_memory.h"
#include "format/flat_index.h"
#include "io/read_rate.h"

namespace picchio {
namespace {

constexpr double kFromStorage = 0.99;
constexpr double kPlateau = 0.95;
constexpr double kForecastSeconds = 0.3;

// Ways, the set of records, and what has been measured of each.
class IoBench {
 public:
  IoBench(Path store, const IoBenchOptions& options, const std::atomic<bool>& stop)
      : store_(std::move(store)), options_(options), stop_(stop) {}

  Status Open() {
    if (options_.ways.empty() || options_.depths.empty() || options_.rounds < 1 ||
        !(options_.seconds > 0) ||
        std::ranges::any_of(options_.depths, [](int depth) { return depth < 1; })) {
      return {Code::kInvalidArgument,
              "nothing to measure: ways, depths, rounds and seconds must be at least one each"};
    }
    PICCHIO_ASSIGN_OR_RETURN(file_, OpenOwned(store_));
    PICCHIO_ASSIGN_OR_RETURN(const FlatIndex index, FlatIndex::Read(*file_));
    report_.store = PathText(store_);
    report_.record_bytes = index.padded_record_bytes();
    report_.block_size = index.superblock().block_size;
    report_.data_offset = index.superblock().data_offset();
    ChooseRecords(index);
    if (offsets_.empty()) return Error(Code::kNotFound, "{} has no records", report_.store);
    DescribeMachine();
    ChooseWays();
    return ChooseDepths();
  }

  IoBenchForecast Forecast() {
    IoBenchForecast forecast{.set_bytes = offsets_.size() * report_.record_bytes,
                             .whole_store = report_.whole_store()};
    const double set_bytes = static_cast<double>(forecast.set_bytes);
    double filling = 0;  // Seconds until the page cache has the set.
    for (const IoBenchSeries& series : report_.series) {
      if (!series.unavailable.empty()) continue;
      const bool warm = series.way == IoWay::kBufferedWarm;
      // Before it is filled, the page cache can only be taken to be ten times as fast.
      const IoWay like = warm ? IoWay::kBuffered : series.way;
      const auto first = Measure(like, std::min(8, options_.depths.back()), 0, kForecastSeconds);
      if (!first.has_value()) continue;  // It will be said when it is measured.
      const double whole = set_bytes / std::max(first->rate.BytesPerSecond(), 1.0);
      if (warm) filling = whole;
      const int measurements = static_cast<int>(options_.depths.size()) * options_.rounds;
      forecast.num_measurements += measurements;
      forecast.seconds +=
          std::min(options_.seconds, warm ? whole / 10 : whole) * static_cast<double>(measurements);
    }
    forecast.seconds += filling * options_.rounds;
    return forecast;
  }

  Status Run(const IoBenchForecast& forecast) {
    Progress progress("measuring", static_cast<uint64_t>(forecast.num_measurements),
                      "measurements");
    for (int round = 0; round < options_.rounds; ++round) {
      // The warm ones last: the cold ones empty the page cache.
      for (const bool warm : {false, true}) {
        if (warm) PICCHIO_RETURN_IF_ERROR(WarmUp());
        for (size_t depth_idx = 0; depth_idx < options_.depths.size(); ++depth_idx) {
          for (size_t i = 0; i < report_.series.size(); ++i) {
            const IoBenchSeries& series = report_.series[i];
            if (!series.unavailable.empty() || (series.way == IoWay::kBufferedWarm) != warm) {
              continue;
            }
            if (stop_.load(std::memory_order_relaxed)) return {Code::kCancelled, "stopped"};
            PICCHIO_RETURN_IF_ERROR(MeasureOnce(i, depth_idx, round));
            progress.Add(1);
          }
        }
      }
    }
    return Status::Ok();
  }

  IoBenchReport Finish() {
    for (size_t i = 0; i < report_.series.size(); ++i) Summarise(i);
    return std::move(report_);
  }

 private:
  struct Measured {
    ReadRate rate{};
    std::optional<double> storage_share{};
  };
  // Of one way at one depth.
  struct Samples {
    std::vector<double> rates{};
    std::vector<double> cpu{};
    std::vector<double> latencies{};
    std::optional<double> storage_share{};
  };

  static Result<std::unique_ptr<File>> OpenOwned(const Path& path) {
    PICCHIO_ASSIGN_OR_RETURN(File file, File::OpenForRead(path));
    return std::make_unique<File>(std::move(file));
  }

  // A set that lies all over the store, the same at every call.
  void ChooseRecords(const FlatIndex& index) {
    for (const RecordPlace place : RecordsOf(index)) {
      offsets_.push_back(
          index.Find(static_cast<int>(place.layer), static_cast<int>(place.expert))->offset);
    }
    report_.num_all_records = offsets_.size();
    std::mt19937_64 random(1);
    std::shuffle(offsets_.begin(), offsets_.end(), random);
    const uint64_t wanted = CeilDiv(options_.set_bytes, report_.record_bytes);
    if (wanted < offsets_.size()) offsets_.resize(wanted);
    report_.num_records = offsets_.size();
  }

  void DescribeMachine() {
    report_.cpu = CpuModel();
    report_.kernel = KernelRelease();
#ifdef NDEBUG
    report_.build = "release";
#else
    report_.build = "debug";
    report_.notes.emplace_back("this is no release build: CPU figures are too high");
#endif
    if (const auto place = PlaceOf(store_); place.has_value()) {
      counters_.emplace(place->major, place->minor);
      report_.disk = ReadDiskFacts(place->major, place->minor);
      report_.file_system = place->file_system;
    }
    if (report_.whole_store() && report_.num_records * report_.record_bytes < options_.set_bytes) {
      report_.notes.push_back(
          fmt::format("the whole store is read, {} records of together {}: less than the {} that "
                      "are wanted, so "
                      "the drive's own cache may serve some of it",
                      report_.num_records, FormatBytes(report_.num_records * report_.record_bytes),
                      FormatBytes(options_.set_bytes)));
    }
  }

  Result<std::unique_ptr<BlockDevice>> OpenWay(IoWay way, int depth) const {
    return OpenIoWay(store_, way,
                     {.depth = depth,
                      .max_alignment = report_.block_size,
                      .register_memory = options_.register_memory});
  }

  void ChooseWays() {
    for (const IoWay way : options_.ways) {
      IoBenchSeries& series = report_.series.emplace_back(IoBenchSeries{.way = way});
      const auto device = OpenWay(way, 1);
      if (!device.has_value()) series.unavailable = device.error().message();
    }
    samples_.resize(report_.series.size());
  }

  Status ChooseDepths() {
    std::vector<int>& depths = options_.depths;
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    while (depths.size() > 1 && static_cast<uint64_t>(depths.back()) > offsets_.size()) {
      report_.notes.push_back(fmt::format("depth {} is left out: the set has {} records",
                                          depths.back(), offsets_.size()));
      depths.pop_back();
    }
    for (;;) {
      const ReadLoad load{.read_bytes = report_.record_bytes,
                          .depth = static_cast<size_t>(depths.back())};
      // Less would not lie in huge pages to its last byte.
      auto memory = PageMemory::Allocate(std::max<uint64_t>(ReadLoadMemory(load), 32_MiB));
      if (memory.has_value()) {
        memory_ = std::move(*memory);
        break;
      }
      if (depths.size() == 1) return memory.error();
      report_.notes.push_back(
          fmt::format("depth {} is left out: {}", depths.back(), memory.error().message()));
      depths.pop_back();
    }
    report_.huge_share =
        static_cast<double>(HugeBytes(memory_.bytes())) / static_cast<double>(memory_.size());
    for (auto& samples : samples_) samples.resize(depths.size());
    return Status::Ok();
  }

  void EmptyPageCache() const {
    for (const uint64_t offset : offsets_) file_->DropCache(offset, report_.record_bytes);
  }

  // The whole set into the page cache, where that will be measured.
  Status WarmUp() {
    for (const IoBenchSeries& series : report_.series) {
      if (series.way != IoWay::kBufferedWarm) continue;
      return Measure(series.way, std::min(8, options_.depths.back()), 0, 1e6).status();
    }
    return Status::Ok();
  }

  // Reads of the set in the round's order, until all are read or the time is over.
  Result<Measured> Measure(IoWay way, int depth, int round, double seconds) {
    PICCHIO_ASSIGN_OR_RETURN(const auto device, OpenWay(way, depth));
    if (way == IoWay::kBuffered) EmptyPageCache();
    std::mt19937_64 random(static_cast<uint64_t>(round) + 2);
    std::vector<uint64_t> order = offsets_;
    std::shuffle(order.begin(), order.end(), random);
    const ReadLoad load{.read_bytes = report_.record_bytes,
                        .depth = static_cast<size_t>(depth),
                        .max_time = std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)),
                        .offsets = order};
    const DiskCounters::Reading before = counters_ ? counters_->Read() : DiskCounters::Reading();
    Measured measured;
    PICCHIO_ASSIGN_OR_RETURN(
        measured.rate, MeasureReadRate(*device, load, memory_.bytes().first(ReadLoadMemory(load))));
    const DiskCounters::Reading after = counters_ ? counters_->Read() : DiskCounters::Reading();
    if (const auto bytes = DiskCounters::BytesBetween(before, after)) {
      measured.storage_share =
          static_cast<double>(*bytes) / static_cast<double>(measured.rate.bytes);
    }
    for (IoBenchSeries& series : report_.series) {
      if (series.way != way) continue;
      series.notes = device->Report().notes;
      series.registered_bytes = std::max(series.registered_bytes, measured.rate.registered_bytes);
    }
    return measured;
  }

  Status MeasureOnce(size_t series_idx, size_t depth_idx, int round) {
    const IoWay way = report_.series[series_idx].way;
    PICCHIO_ASSIGN_OR_RETURN(Measured measured,
                             Measure(way, options_.depths[depth_idx], round, options_.seconds));
    Samples& samples = samples_[series_idx][depth_idx];
    samples.rates.push_back(measured.rate.BytesPerSecond());
    samples.cpu.push_back(measured.rate.cpu_seconds * 1e9 /
                          static_cast<double>(measured.rate.bytes));
    samples.latencies.insert(samples.latencies.end(), measured.rate.latencies.begin(),
                             measured.rate.latencies.end());
    // One round that does not say spoils what the others say.
    if (round == 0) {
      samples.storage_share = measured.storage_share;
    } else if (!measured.storage_share || !samples.storage_share) {
      samples.storage_share.reset();
    } else {
      samples.storage_share = std::min(*samples.storage_share, *measured.storage_share);
    }
    return Status::Ok();
  }

  void Summarise(size_t series_idx) {
    IoBenchSeries& series = report_.series[series_idx];
    if (!series.unavailable.empty()) return;
    for (size_t i = 0; i < options_.depths.size(); ++i) {
      Samples& samples = samples_[series_idx][i];
      std::sort(samples.latencies.begin(), samples.latencies.end());
      series.points.push_back({.depth = options_.depths[i],
                               .num_reads = samples.latencies.size(),
                               .bytes_per_second = SpreadOf(samples.rates),
                               .p50 = Quantile(samples.latencies, 0.5),
                               .p90 = Quantile(samples.latencies, 0.9),
                               .p99 = Quantile(samples.latencies, 0.99),
                               .max = Quantile(samples.latencies, 1),
                               .cpu_seconds_per_gb = SpreadOf(samples.cpu),
                               .storage_share = samples.storage_share});
    }
    FindPeak(series);
  }

  const Path store_;
  IoBenchOptions options_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<File> file_;
  std::vector<uint64_t> offsets_;  // Of the set's records.
  std::optional<DiskCounters> counters_;
  PageMemory memory_;
  std::vector<std::vector<Samples>> samples_;  // By series and depth.
  IoBenchReport report_;
};

}  // namespace

void FindPeak(IoBenchSeries& series) {
  double peak = 0;
  for (const IoBenchPoint& point : series.points) {
    if (point.bytes_per_second.median <= peak) continue;
    peak = point.bytes_per_second.median;
    series.peak_depth = point.depth;
  }
  for (const IoBenchPoint& point : series.points) {
    if (point.bytes_per_second.median < kPlateau * peak) continue;
    series.plateau_depth = point.depth;
    break;
  }
}

const IoBenchPoint* IoBenchSeries::Peak() const {
  for (const IoBenchPoint& point : points) {
    if (point.depth == peak_depth) return &point;
  }
  return nullptr;
}

bool IoBenchSeries::FromStorage() const {
  return !points.empty() && std::ranges::all_of(points, [](const IoBenchPoint& point) {
    return point.storage_share.value_or(0) >= kFromStorage;
  });
}

const IoBenchSeries* IoBenchReport::Fastest() const {
  const IoBenchSeries* fastest = nullptr;
  for (const IoBenchSeries& one : series) {
    if (one.Peak() == nullptr || !PastThePageCache(one.way)) continue;
    if (fastest == nullptr ||
        one.Peak()->bytes_per_second.median > fastest->Peak()->bytes_per_second.median) {
      fastest = &one;
    }
  }
  return fastest;
}

Result<IoBenchReport> RunIoBench(const Path& store, const IoBenchOptions& options,
                                 const std::atomic<bool>& stop,
                                 const std::function<void(const IoBenchForecast&)>& on_forecast) {
  IoBench bench(store, options, stop);
  PICCHIO_RETURN_IF_ERROR(bench.Open());
  const IoBenchForecast forecast = bench.Forecast();
  if (on_forecast) on_forecast(forecast);
  PICCHIO_RETURN_IF_ERROR(bench.Run(forecast));
  return bench.Finish();
}

}  // namespace picchio
