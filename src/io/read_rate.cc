#include "io/read_rate.h"

#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/units.h"

namespace picchio {
namespace {

uint64_t Stride(const ReadLoad& load) { return RoundUp(load.read_bytes, 64_KiB); }

double CpuSeconds() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Whole reads, at most 1 GiB: a registered buffer cannot be larger.
Status AttachInPieces(ReadQueue& queue, const ReadLoad& load, std::span<std::byte> memory) {
  const uint64_t stride = Stride(load);
  const uint64_t piece = std::max<uint64_t>(1_GiB / stride, 1) * stride;
  for (uint64_t at = 0; at < memory.size(); at += piece) {
    const std::span<std::byte> rest = memory.subspan(at);
    PICCHIO_RETURN_IF_ERROR(queue.Attach(rest.first(std::min<uint64_t>(rest.size(), piece))));
  }
  return Status::Ok();
}

}  // namespace

uint64_t ReadLoadMemory(const ReadLoad& load) { return load.depth * Stride(load); }

Result<ReadRate> MeasureReadRate(BlockDevice& device, const ReadLoad& load,
                                 std::span<std::byte> memory) {
  PICCHIO_CHECK(load.depth >= 1 && load.read_bytes >= 1 && memory.size() >= ReadLoadMemory(load));
  const uint64_t num_places = device.file_bytes(load.file_idx) / load.read_bytes;
  PICCHIO_CHECK(num_places >= 1);
  PICCHIO_ASSIGN_OR_RETURN(const auto queue, device.OpenQueue());
  PICCHIO_RETURN_IF_ERROR(AttachInPieces(*queue, load, memory));

  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(load.seed);
  std::vector<Clock::time_point> begun(load.depth);  // By tag, which is the slot.
  std::vector<DeviceRead> next;
  size_t num_given = 0;  // Of load.offsets.
  const auto add = [&](uint64_t slot) {
    uint64_t offset = 0;
    if (load.offsets.empty()) {
      offset = random() % num_places * load.read_bytes;
    } else if (num_given < load.offsets.size()) {
      offset = load.offsets[num_given++];
    } else {
      return;
    }
    next.push_back({.file_idx = load.file_idx,
                    .offset = offset,
                    .out = memory.subspan(slot * Stride(load), load.read_bytes),
                    .tag = slot});
  };
  for (uint64_t slot = 0; slot < load.depth; ++slot) add(slot);

  ReadRate rate;
  uint64_t bytes_begun = 0;
  size_t in_flight = 0;
  bool over = false;
  const bool bursts = load.pause.count() > 0;
  bool first_burst = bursts;
  size_t num_allowed = bursts ? 0 : SIZE_MAX;  // Of this burst, still to be submitted.
  Clock::duration paused{0};
  std::vector<DeviceCompletion> batch(load.depth);
  double cpu_before = CpuSeconds();
  Clock::time_point start = Clock::now();
  for (;;) {
    Clock::time_point now = Clock::now();
    over = over || bytes_begun >= load.max_bytes || now - start >= load.max_time ||
           (load.stop != nullptr && load.stop->load(std::memory_order_relaxed));
    if (bursts && in_flight == 0 && num_allowed == 0 && !over) {
      std::this_thread::sleep_for(load.pause);
      if (first_burst && rate.bytes > 0) {
        first_burst = false;
        rate = {};
        cpu_before = CpuSeconds();
        start = Clock::now();
      } else {
        paused += Clock::now() - now;
      }
      now = Clock::now();
      num_allowed = next.size();
    }
    if (!over && !next.empty() && num_allowed > 0) {
      const auto allowed = std::span(next).first(std::min(next.size(), num_allowed));
      const size_t accepted = queue->Submit(allowed);
      for (const DeviceRead& read : allowed.first(accepted)) begun[read.tag] = now;
      next.erase(next.begin(), next.begin() + static_cast<ptrdiff_t>(accepted));
      if (bursts) num_allowed -= accepted;
      in_flight += accepted;
      bytes_begun += accepted * load.read_bytes;
    }
    if (in_flight == 0) break;
    const size_t count = queue->Reap(batch, kForever);
    const Clock::time_point end = Clock::now();
    for (const DeviceCompletion& completion : std::span(batch).first(count)) {
      PICCHIO_RETURN_IF_ERROR(completion.status);
      rate.latencies.push_back(std::chrono::duration<double>(end - begun[completion.tag]).count());
      rate.bytes += load.read_bytes;
      add(completion.tag);
    }
    in_flight -= count;
  }
  rate.seconds = std::chrono::duration<double>(Clock::now() - start - paused).count();
  rate.registered_bytes = device.Report().registered_bytes;
  rate.cpu_seconds = CpuSeconds() - cpu_before;
  return rate;
}

}  // namespace picchio
