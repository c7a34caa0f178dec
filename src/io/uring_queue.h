// A read queue over io_uring: one thread keeps many requests at the device.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "io/block_device.h"
#include "io/device_file.h"
#include "io/uring_ring.h"

namespace picchio {

struct UringQueueOptions {
  // Reads at the device at once, at least 1; the others wait in line, demands before prefetches.
  size_t depth = 32;
  size_t max_in_flight = 256;                     // At least 1.
  uint64_t max_request_bytes = kMaxRequestBytes;  // Less is for tests.
  bool register_memory = true;                    // What Attach announces, where the limits allow.
  std::shared_ptr<TransferFaults> faults{};       // For tests; null: none.
  // For tests: called with the number of requests before each call of the kernel, and what it
  // returns, a negated errno, is taken for the kernel's answer; 0: the kernel is called.
  std::function<int(unsigned num_entries)> on_enter{};
  UringRing::Options ring{};
};

// A read is cut into requests of the size that the kernel takes in one piece for its file and its
// memory (request_limits.h): memory in huge pages takes far larger ones, which is found out when
// it is attached. Files and memory are registered, so that the kernel need not look them up and pin
// them for every request; where that fails, a note says so and reads go on without.
class UringQueue final : public ReadQueue {
 public:
  // The files and the statistics outlive the queue. Fails as UringRing::Open.
  static Result<std::unique_ptr<UringQueue>> Open(
      std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
      const UringQueueOptions& options, DeviceStatistics* statistics);
  ~UringQueue() override;

  std::string_view mode() const { return ring_->mode(); }

  size_t max_in_flight() const override { return options_.max_in_flight; }
  Status Attach(std::span<std::byte> memory) override;
  void Detach(std::span<std::byte> memory) override;
  size_t Submit(std::span<const DeviceRead> reads) override;
  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override;
  void Cancel(uint64_t tag) override;
  void Promote(uint64_t tag) override;
  void Drain() override;

 private:
  // Memory that was announced.
  struct Attachment {
    std::span<std::byte> memory;
    int buffer_idx = -1;         // -1: not registered.
    std::optional<bool> huge{};  // All of it lies in huge pages. Not looked at yet: nothing.
  };

  struct Read {
    DeviceRead request{};
    size_t num_cut = 0;       // Bytes that parts have been made for.
    uint64_t part_bytes = 0;  // Size of a part.
    int buffer_idx = -1;
    uint32_t num_parts = 0;  // Unfinished.
    bool begun = false;      // Has left its line.
    bool cancelled = false;  // No more parts are made.
    Status failure{};        // Of the first part that failed.
  };

  struct Part {
    uint32_t read_idx = 0;
    Transfer transfer{};
  };

  UringQueue(std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
             const UringQueueOptions& options, DeviceStatistics* statistics,
             std::unique_ptr<UringRing> ring);

  std::deque<uint32_t>& Line(ReadPriority priority) {
    return waiting_[priority == ReadPriority::kDemand ? 0 : 1];
  }
  void LookForHugePages();
  const Attachment* FindAttachment(std::span<const std::byte> memory) const;

  void Issue();                       // Requests, as long as there is something to ask and room.
  bool NextPart(uint32_t& part_idx);  // Cuts one; false where there is nothing to cut.
  void Begin(uint32_t read_idx);
  bool Prepare(uint32_t part_idx);  // Puts its request into the ring; false where that is full.
  void Enter(unsigned num_wait, std::chrono::nanoseconds timeout);
  void TakeAnswers(bool drop);
  void FinishPart(uint32_t part_idx);
  void FinishReadIfDone(uint32_t read_idx);
  void Complete(uint32_t read_idx, Status status);
  void GiveUp(int error);  // The ring takes no more requests.
  void FailWhatWasNotTaken();

  const std::span<const std::unique_ptr<DeviceFile>> files_;
  const uint64_t alignment_;
  const UringQueueOptions options_;
  DeviceStatistics* const statistics_;
  const std::unique_ptr<UringRing> ring_;
  bool files_registered_ = false;
  Status broken_{};  // Once the ring has failed: what every further read is answered.

  std::vector<Attachment> attachments_;
  std::vector<Read> reads_;
  std::vector<uint32_t> free_reads_;  // Indexes into reads_.
  std::deque<uint32_t> waiting_[2];   // Likewise: demands, prefetches.
  std::deque<uint32_t> cutting_;      // Likewise: begun, not all parts made.
  size_t num_begun_ = 0;              // Begun and not done.
  std::vector<Part> parts_;
  std::vector<uint32_t> free_parts_;  // Indexes into parts_.
  std::deque<uint32_t> again_;        // Likewise: to be asked for (the rest of) once more.
  size_t num_asked_ = 0;              // Parts whose request is in the ring or in the kernel.
  std::deque<DeviceCompletion> done_;
  size_t in_flight_ = 0;  // Submitted and not reaped.
};

}  // namespace picchio
