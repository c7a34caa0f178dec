#include "io/uring_queue.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/cgroup.h"
#include "base/huge_pages.h"

namespace picchio {
namespace {

// The kernel works off a batch inside the call that brings it: hundreds of requests would keep the
// caller from computing for milliseconds.
constexpr unsigned kBatch = 32;

constexpr std::chrono::milliseconds kPause{1};

}  // namespace

Result<std::unique_ptr<UringQueue>> UringQueue::Open(
    std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
    const UringQueueOptions& options, DeviceStatistics* statistics) {
  PICCHIO_ASSIGN_OR_RETURN(auto ring, UringRing::Open(options.ring));
  std::unique_ptr<UringQueue> queue(
      new UringQueue(files, alignment, options, statistics, std::move(ring)));
  std::vector<int> descriptors;
  for (const auto& file : files) {
    descriptors.push_back(file->buffered_descriptor());
    descriptors.push_back(file->direct_descriptor());
  }
  // Refused only where RLIMIT_NOFILE is below their number: then they go by their own numbers.
  const Status registered = queue->ring_->RegisterFiles(descriptors);
  queue->files_registered_ = registered.ok();
  if (!registered.ok()) statistics->Note("register files", registered.message());
  if (!queue->ring_->is_fastest_mode()) {
    statistics->Note("ring mode", fmt::format("io_uring runs in its mode '{}': Linux 6.1 has a "
                                              "faster one",
                                              queue->mode()));
  }
  return queue;
}

UringQueue::UringQueue(std::span<const std::unique_ptr<DeviceFile>> files, uint64_t alignment,
                       const UringQueueOptions& options, DeviceStatistics* statistics,
                       std::unique_ptr<UringRing> ring)
    : files_(files),
      alignment_(alignment),
      options_(options),
      statistics_(statistics),
      ring_(std::move(ring)),
      reads_(options.max_in_flight),
      // Never more requests than completions have room.
      parts_(std::min(ring_->get()->sq.ring_entries, ring_->get()->cq.ring_entries)) {
  for (size_t i = reads_.size(); i-- > 0;) free_reads_.push_back(static_cast<uint32_t>(i));
  for (size_t i = parts_.size(); i-- > 0;) free_parts_.push_back(static_cast<uint32_t>(i));
}

UringQueue::~UringQueue() {
  UringQueue::Drain();
  for (const Attachment& attached : attachments_) {
    if (attached.buffer_idx >= 0) statistics_->RemoveRegistered(attached.memory.size());
  }
}

Status UringQueue::Attach(std::span<std::byte> memory) {
  Attachment attachment{.memory = memory};
  if (options_.register_memory) {
    const auto buffer_idx = ring_->RegisterBuffer(memory);
    if (buffer_idx.has_value()) {
      attachment.buffer_idx = *buffer_idx;
      statistics_->AddRegistered(memory.size());
    } else {
      statistics_->Note("register memory", buffer_idx.error().message());
    }
  }
  attachments_.push_back(attachment);
  return Status::Ok();
}

// For all memory that was attached since the last time: the kernel's list is long, and walks the
// page tables of the whole process.
void UringQueue::LookForHugePages() {
  const auto unknown = [](const Attachment& attached) { return !attached.huge.has_value(); };
  if (std::ranges::none_of(attachments_, unknown)) return;
  const std::string smaps = ReadPseudoFile("/proc/self/smaps");
  for (Attachment& attached : attachments_) {
    const auto begin = reinterpret_cast<uintptr_t>(attached.memory.data());
    const uint64_t bytes = attached.memory.size();
    if (unknown(attached)) attached.huge = HugeBytesInSmaps(smaps, begin, begin + bytes) >= bytes;
  }
}

void UringQueue::Detach(std::span<std::byte> memory) {
  const auto found = std::find_if(
      attachments_.begin(), attachments_.end(),
      [memory](const Attachment& attached) { return attached.memory.data() == memory.data(); });
  if (found == attachments_.end()) return;
  if (found->buffer_idx >= 0) {
    ring_->UnregisterBuffer(found->buffer_idx);
    statistics_->RemoveRegistered(found->memory.size());
  }
  attachments_.erase(found);
}

const UringQueue::Attachment* UringQueue::FindAttachment(std::span<const std::byte> memory) const {
  for (const Attachment& attached : attachments_) {
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    const auto begin = reinterpret_cast<uintptr_t>(attached.memory.data());
    if (at >= begin && at - begin <= attached.memory.size() &&
        memory.size() <= attached.memory.size() - (at - begin)) {
      return &attached;
    }
  }
  return nullptr;
}

size_t UringQueue::Submit(std::span<const DeviceRead> reads) {
  if (broken_.ok()) broken_ = ring_->Enable();
  LookForHugePages();
  const size_t accepted = std::min(reads.size(), free_reads_.size());
  for (const DeviceRead& request : reads.first(accepted)) {
    PICCHIO_CHECK(request.file_idx < files_.size() && !request.out.empty());
    const uint32_t read_idx = free_reads_.back();
    free_reads_.pop_back();
    ++in_flight_;
    reads_[read_idx] = {.request = request};
    const DeviceFile& file = *files_[request.file_idx];
    Status refused =
        broken_.ok() ? CheckAlignment(request, alignment_, file.size(), file.name()) : broken_;
    if (!refused.ok()) {
      Complete(read_idx, std::move(refused));
    } else {
      Line(request.priority).push_back(read_idx);
    }
  }
  Issue();
  return accepted;
}

size_t UringQueue::Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) {
  if (out.empty()) return 0;
  const Deadline deadline(timeout);
  for (;;) {
    TakeAnswers(false);
    Issue();
    if (!done_.empty() || in_flight_ == 0 || deadline.passed()) break;
    Enter(1, deadline.left());
  }
  const size_t count = std::min(out.size(), done_.size());
  const auto end = done_.begin() + static_cast<ptrdiff_t>(count);
  std::move(done_.begin(), end, out.begin());
  done_.erase(done_.begin(), end);
  in_flight_ -= count;
  return count;
}

void UringQueue::Issue() {
  if (!broken_.ok()) {
    FailWhatWasNotTaken();
    return;
  }
  for (;;) {
    uint32_t part_idx;
    if (!again_.empty()) {
      part_idx = again_.front();
      again_.pop_front();
    } else if (!NextPart(part_idx)) {
      break;
    }
    if (!Prepare(part_idx)) {
      again_.push_front(part_idx);
      break;
    }
    if (io_uring_sq_ready(ring_->get()) < kBatch) continue;
    Enter(0, {});
    if (io_uring_sq_ready(ring_->get()) >= kBatch) return;  // Not now.
  }
  if (io_uring_sq_ready(ring_->get()) > 0) Enter(0, {});
}

bool UringQueue::NextPart(uint32_t& part_idx) {
  if (free_parts_.empty() || !broken_.ok()) return false;
  if (cutting_.empty()) {
    std::deque<uint32_t>& line = waiting_[0].empty() ? waiting_[1] : waiting_[0];
    if (line.empty() || num_begun_ >= options_.depth) return false;
    Begin(line.front());
    line.pop_front();
  }
  const uint32_t read_idx = cutting_.front();
  Read& read = reads_[read_idx];
  const DeviceFile& file = *files_[read.request.file_idx];
  const size_t bytes = std::min<uint64_t>(read.request.out.size() - read.num_cut, read.part_bytes);
  part_idx = free_parts_.back();
  free_parts_.pop_back();
  parts_[part_idx] = {
      .read_idx = read_idx,
      .transfer = Transfer(&file.transfer_file(), read.request.offset + read.num_cut,
                           read.request.out.subspan(read.num_cut, bytes), read.part_bytes)};
  read.num_cut += bytes;
  ++read.num_parts;
  if (read.num_cut == read.request.out.size()) cutting_.pop_front();
  return true;
}

void UringQueue::Begin(uint32_t read_idx) {
  Read& read = reads_[read_idx];
  const DeviceFile& file = *files_[read.request.file_idx];
  const Attachment* attached = FindAttachment(read.request.out);
  const bool huge = attached != nullptr && attached->huge.value_or(false);
  const RequestLimits& limits = file.limits();
  read.part_bytes =
      std::min(huge ? limits.huge_page_bytes : limits.small_page_bytes, options_.max_request_bytes);
  read.part_bytes = std::max(read.part_bytes, file.transfer_file().direct_alignment);
  read.buffer_idx = attached != nullptr ? attached->buffer_idx : -1;
  read.begun = true;
  ++num_begun_;
  cutting_.push_back(read_idx);
}

bool UringQueue::Prepare(uint32_t part_idx) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
  if (sqe == nullptr) return false;
  const Part& part = parts_[part_idx];
  const Read& read = reads_[part.read_idx];
  const DeviceFile& file = *files_[read.request.file_idx];
  const Transfer::Request request = part.transfer.Next();
  const auto bytes = static_cast<unsigned>(request.out.size());  // At most kMaxRequestBytes.
  int descriptor = request.direct ? file.direct_descriptor() : file.buffered_descriptor();
  if (files_registered_) {
    descriptor = static_cast<int>(2 * read.request.file_idx + (request.direct ? 1 : 0));
  }
  if (read.buffer_idx >= 0) {
    io_uring_prep_read_fixed(sqe, descriptor, request.out.data(), bytes, request.offset,
                             read.buffer_idx);
  } else {
    io_uring_prep_read(sqe, descriptor, request.out.data(), bytes, request.offset);
  }
  if (files_registered_) sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = part_idx;
  ++num_asked_;
  return true;
}

// Hands over what is in the ring and waits for `num_wait` completions (0 or 1), at most `timeout`.
// What the kernel cannot take now stays in the ring for the next time.
void UringQueue::Enter(unsigned num_wait, std::chrono::nanoseconds timeout) {
  if (!broken_.ok()) {
    // What the kernel has it will complete: all that can be done is to look.
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kPause));
    return;
  }
  int result = options_.on_enter ? options_.on_enter(io_uring_sq_ready(ring_->get())) : 0;
  if (result < 0) {
    // The kernel is not called.
  } else if (num_wait == 0) {
    result = io_uring_submit(ring_->get());
  } else {
    io_uring_cqe* ignored = nullptr;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    __kernel_timespec wait{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
    result = io_uring_submit_and_wait_timeout(ring_->get(), &ignored, num_wait,
                                              timeout == kForever ? nullptr : &wait, nullptr);
  }
  if (result >= 0 || result == -EINTR || result == -ETIME) return;
  if (result == -EAGAIN || result == -EBUSY || result == -ENOMEM) {
    // Out of memory for requests, or completions are waiting to be taken.
    if (num_wait > 0)
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kPause));
    return;
  }
  GiveUp(-result);
}

void UringQueue::GiveUp(int error) {
  io_uring* ring = ring_->get();
  broken_ = ErrnoError(error, "io_uring takes no more reads");
  // Requests that the kernel has not taken it will never see: their memory is ours again.
  for (unsigned head = *ring->sq.khead; head != ring->sq.sqe_tail; ++head) {
    const auto part_idx = static_cast<uint32_t>(ring->sq.sqes[head & ring->sq.ring_mask].user_data);
    --num_asked_;
    again_.push_back(part_idx);
  }
  ring->sq.sqe_tail = ring->sq.sqe_head = *ring->sq.khead;
  FailWhatWasNotTaken();
}

// What the kernel has taken it will complete: until then those reads, and their memory, are its.
void UringQueue::FailWhatWasNotTaken() {
  const auto fail = [this](uint32_t read_idx) {
    reads_[read_idx].cancelled = true;
    if (reads_[read_idx].failure.ok()) reads_[read_idx].failure = broken_;
  };
  for (std::deque<uint32_t>& line : waiting_) {
    for (const uint32_t read_idx : std::exchange(line, {})) Complete(read_idx, broken_);
  }
  for (const uint32_t read_idx : std::exchange(cutting_, {})) {
    fail(read_idx);
    FinishReadIfDone(read_idx);
  }
  for (const uint32_t part_idx : std::exchange(again_, {})) {
    fail(parts_[part_idx].read_idx);
    FinishPart(part_idx);
  }
}

void UringQueue::TakeAnswers(bool drop) {
  io_uring* ring = ring_->get();
  // Completions that the kernel keeps until it is asked: the price of not being interrupted.
  const unsigned flags = IO_URING_READ_ONCE(*ring->sq.kflags);
  if (num_asked_ > 0 && ((flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0 ||
                         (ring->flags & IORING_SETUP_IOPOLL) != 0)) {
    (void)io_uring_get_events(ring);
  }
  for (;;) {
    io_uring_cqe* cqes[kBatch];
    const unsigned count = io_uring_peek_batch_cqe(ring, cqes, kBatch);
    if (count == 0) break;
    for (unsigned i = 0; i < count; ++i) {
      const auto part_idx = static_cast<uint32_t>(cqes[i]->user_data);
      int64_t result = cqes[i]->res;
      --num_asked_;
      if (drop) {
        FinishPart(part_idx);
        continue;
      }
      Transfer& transfer = parts_[part_idx].transfer;
      if (options_.faults != nullptr) {
        result = options_.faults->Alter(result, transfer.Next().direct);
      }
      transfer.Answered(result, *statistics_);
      if (transfer.finished()) {
        FinishPart(part_idx);
      } else {
        again_.push_back(part_idx);
      }
    }
    io_uring_cq_advance(ring, count);
  }
}

void UringQueue::FinishPart(uint32_t part_idx) {
  const Part& part = parts_[part_idx];
  const uint32_t read_idx = part.read_idx;
  Read& read = reads_[read_idx];
  if (!part.transfer.status().ok() && read.failure.ok()) {
    read.failure = part.transfer.status();
    std::erase(cutting_, read_idx);  // The rest is of no use.
    read.cancelled = true;
  }
  --read.num_parts;
  free_parts_.push_back(part_idx);
  FinishReadIfDone(read_idx);
}

void UringQueue::FinishReadIfDone(uint32_t read_idx) {
  Read& read = reads_[read_idx];
  const bool whole = read.num_cut == read.request.out.size();
  if (read.num_parts > 0 || !(whole || read.cancelled)) return;
  if (!whole && read.failure.ok()) read.failure = {Code::kCancelled, "the read was cancelled"};
  Complete(read_idx, std::move(read.failure));
}

void UringQueue::Complete(uint32_t read_idx, Status status) {
  Read& read = reads_[read_idx];
  if (read.begun) --num_begun_;
  if (read.begun && status.ok()) statistics_->AddRead();
  done_.push_back({.tag = read.request.tag, .status = std::move(status)});
  free_reads_.push_back(read_idx);
}

void UringQueue::Cancel(uint64_t tag) {
  const auto has_tag = [&](uint32_t read_idx) { return reads_[read_idx].request.tag == tag; };
  for (std::deque<uint32_t>& line : waiting_) {
    const auto found = std::find_if(line.begin(), line.end(), has_tag);
    if (found == line.end()) continue;
    const uint32_t read_idx = *found;
    line.erase(found);
    Complete(read_idx, {Code::kCancelled, "the read was cancelled"});
    return;
  }
  // Begun: what is at the device must come back, what has not been asked for need not be.
  const auto found = std::find_if(cutting_.begin(), cutting_.end(), has_tag);
  if (found == cutting_.end()) return;
  const uint32_t read_idx = *found;
  cutting_.erase(found);
  reads_[read_idx].cancelled = true;
  FinishReadIfDone(read_idx);
}

void UringQueue::Promote(uint64_t tag) {
  std::deque<uint32_t>& prefetches = Line(ReadPriority::kPrefetch);
  const auto found = std::find_if(prefetches.begin(), prefetches.end(), [&](uint32_t read_idx) {
    return reads_[read_idx].request.tag == tag;
  });
  if (found == prefetches.end()) return;
  Line(ReadPriority::kDemand).push_back(*found);
  prefetches.erase(found);
}

void UringQueue::Drain() {
  for (std::deque<uint32_t>& line : waiting_) {
    for (const uint32_t read_idx : line) Complete(read_idx, {});
    line.clear();
  }
  for (const uint32_t read_idx : std::exchange(cutting_, {})) {
    reads_[read_idx].cancelled = true;
    FinishReadIfDone(read_idx);
  }
  for (const uint32_t part_idx : std::exchange(again_, {})) FinishPart(part_idx);
  while (num_asked_ > 0) {
    TakeAnswers(true);
    if (num_asked_ > 0) Enter(1, kForever);
  }
  done_.clear();
  in_flight_ = 0;
}

}  // namespace picchio
