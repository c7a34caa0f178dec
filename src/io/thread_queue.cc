#include "io/thread_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/start_thread.h"

namespace picchio {
namespace {

// The owner puts reads in line, threads take them and leave completions.
class ThreadQueue final : public ReadQueue {
 public:
  static Result<std::unique_ptr<ReadQueue>> Start(const ThreadQueueOptions& options,
                                                  BlockingRead read, DeviceStatistics* statistics) {
    std::unique_ptr<ThreadQueue> queue(new ThreadQueue(options.max_in_flight, std::move(read)));
    int started = 0;
    while (started < options.num_threads &&
           StartThread(queue->threads_, [&queue = *queue] { queue.Work(); })) {
      ++started;
    }
    if (started == 0) return Error(Code::kUnavailable, "cannot start a thread that reads");
    if (started < options.num_threads && statistics != nullptr) {
      statistics->Note("reading threads",
                       fmt::format("the system gives only {} of {} threads for reading", started,
                                   options.num_threads));
    }
    return std::unique_ptr<ReadQueue>(std::move(queue));
  }

  ~ThreadQueue() override {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
      waiting_[0].clear();
      waiting_[1].clear();
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  size_t max_in_flight() const override { return max_in_flight_; }

  size_t Submit(std::span<const DeviceRead> reads) override {
    size_t accepted;
    {
      const std::scoped_lock lock(mutex_);
      accepted = std::min(reads.size(), max_in_flight_ - in_flight_);
      for (const DeviceRead& read : reads.first(accepted)) {
        Line(read.priority).push_back(read);
      }
      in_flight_ += accepted;
    }
    for (size_t i = 0; i < std::min(accepted, threads_.size()); ++i) work_.notify_one();
    return accepted;
  }

  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(mutex_);
    if (out.empty()) return 0;
    if (done_.empty() && timeout.count() > 0) {
      Deadline(timeout).Wait(completed_, lock,
                             [this] { return !done_.empty() || in_flight_ == 0; });
    }
    const size_t count = std::min(out.size(), done_.size());
    const auto end = done_.begin() + static_cast<ptrdiff_t>(count);
    std::move(done_.begin(), end, out.begin());
    done_.erase(done_.begin(), end);
    in_flight_ -= count;
    return count;
  }

  void Cancel(uint64_t tag) override {
    const std::scoped_lock lock(mutex_);
    for (std::deque<DeviceRead>& line : waiting_) {
      const auto read = Find(line, tag);
      if (read == line.end()) continue;
      line.erase(read);
      done_.push_back({.tag = tag, .status = {Code::kCancelled, "the read was cancelled"}});
    }
  }

  void Promote(uint64_t tag) override {
    const std::scoped_lock lock(mutex_);
    std::deque<DeviceRead>& prefetches = Line(ReadPriority::kPrefetch);
    const auto read = Find(prefetches, tag);
    if (read == prefetches.end()) return;
    Line(ReadPriority::kDemand).push_back(*read);
    prefetches.erase(read);
  }

  void Drain() override {
    std::unique_lock lock(mutex_);
    waiting_[0].clear();
    waiting_[1].clear();
    completed_.wait(lock, [this] { return num_reading_ == 0; });
    done_.clear();
    in_flight_ = 0;
  }

 private:
  ThreadQueue(size_t max_in_flight, BlockingRead read)
      : read_(std::move(read)), max_in_flight_(max_in_flight) {}

  std::deque<DeviceRead>& Line(ReadPriority priority) {
    return waiting_[priority == ReadPriority::kDemand ? 0 : 1];
  }

  static std::deque<DeviceRead>::iterator Find(std::deque<DeviceRead>& line, uint64_t tag) {
    return std::find_if(line.begin(), line.end(),
                        [tag](const DeviceRead& read) { return read.tag == tag; });
  }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !waiting_[0].empty() || !waiting_[1].empty(); });
      if (stop_) return;
      std::deque<DeviceRead>& line = waiting_[0].empty() ? waiting_[1] : waiting_[0];
      const DeviceRead read = line.front();
      line.pop_front();
      ++num_reading_;
      lock.unlock();
      DeviceCompletion completion{.tag = read.tag, .status = read_(read)};
      lock.lock();
      --num_reading_;
      done_.push_back(std::move(completion));
      completed_.notify_one();
    }
  }

  const BlockingRead read_;
  const size_t max_in_flight_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable completed_;
  // Guarded by mutex_ from here on.
  std::deque<DeviceRead> waiting_[2];  // Demands, prefetches.
  std::deque<DeviceCompletion> done_;
  size_t in_flight_ = 0;    // Waiting, reading and done.
  size_t num_reading_ = 0;  // By threads, now.
  bool stop_ = false;
};

}  // namespace

Status CheckThreadQueueOptions(const ThreadQueueOptions& options) {
  if (options.num_threads >= 1 && options.max_in_flight >= 1) return Status::Ok();
  return Error(Code::kInvalidArgument, "{} threads and {} reads in flight: at least one of each",
               options.num_threads, options.max_in_flight);
}

Result<std::unique_ptr<ReadQueue>> StartThreadQueue(const ThreadQueueOptions& options,
                                                    BlockingRead read,
                                                    DeviceStatistics* statistics) {
  PICCHIO_RETURN_IF_ERROR(CheckThreadQueueOptions(options));
  return ThreadQueue::Start(options, std::move(read), statistics);
}

}  // namespace picchio
