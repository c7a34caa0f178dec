#include "apps/pack/for_each_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/work_queue.h"
#include "base/page_memory.h"
#include "base/units.h"

namespace picchio {
namespace {

// What one thread makes or checks at a time: large enough for the device to run at its speed.
constexpr uint64_t kRunBytes = 8_MiB;
// All threads' runs together, unless the records themselves are larger.
constexpr uint64_t kMaxBufferBytes = 1_GiB;

}  // namespace

Status ForEachRun(const FlatIndex& index, int num_workers, const std::atomic<bool>& stop,
                  FunctionRef<Status(const RunInHand&)> work) {
  const std::vector<RecordPlace> records = RecordsOf(index);
  const std::vector<RecordRun> runs = RunsOf(index, kRunBytes);
  if (runs.empty()) return Status::Ok();
  const uint64_t padded = index.padded_record_bytes();
  const uint64_t run_bytes = runs.front().last * padded;  // The first is the longest.
  const uint64_t affordable = std::max<uint64_t>(1, kMaxBufferBytes / run_bytes);
  const auto workers =
      static_cast<int>(std::min({static_cast<uint64_t>(num_workers), affordable, runs.size()}));
  std::vector<PageMemory> buffers;
  for (int i = 0; i < workers; ++i) {
    PICCHIO_ASSIGN_OR_RETURN(PageMemory buffer, PageMemory::Allocate(run_bytes));
    buffers.push_back(std::move(buffer));
  }
  const auto places_of = [&](size_t run) {
    return std::span(records).subspan(runs[run].first, runs[run].last - runs[run].first);
  };
  return RunOnThreads(workers, runs.size(), [&](size_t n, int worker) -> Status {
    if (stop.load(std::memory_order_relaxed)) return Status(Code::kCancelled, "stopped");
    RunInHand run{.places = places_of(n), .first = runs[n].first};
    run.offset = index.Find(run.places.front().layer, run.places.front().expert)->offset;
    run.worker = static_cast<size_t>(worker);
    run.buffer = buffers[run.worker].bytes().first(run.places.size() * padded);
    const size_t ahead = n + static_cast<size_t>(workers);
    if (ahead < runs.size()) run.ahead = places_of(ahead);
    return work(run);
  });
}

}  // namespace picchio
