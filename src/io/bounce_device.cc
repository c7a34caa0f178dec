#include "io/bounce_device.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "base/page_memory.h"

namespace picchio {
namespace {

class BounceQueue final : public ReadQueue {
 public:
  static Result<std::unique_ptr<ReadQueue>> Open(BlockDevice& device,
                                                 const BounceDevice::Options& options) {
    PICCHIO_ASSIGN_OR_RETURN(PageMemory memory,
                             PageMemory::Allocate(options.num_buffers * options.buffer_bytes));
    PICCHIO_ASSIGN_OR_RETURN(auto inner, device.OpenQueue());
    PICCHIO_RETURN_IF_ERROR(inner->Attach(memory.bytes()));
    return std::unique_ptr<ReadQueue>(
        new BounceQueue(device, options, std::move(memory), std::move(inner)));
  }

  size_t max_in_flight() const override { return reads_.size(); }

  size_t Submit(std::span<const DeviceRead> reads) override {
    const size_t accepted = std::min(reads.size(), free_reads_.size());
    for (const DeviceRead& request : reads.first(accepted)) {
      PICCHIO_CHECK(request.file_idx < device_.num_files() && !request.out.empty());
      const size_t read_idx = free_reads_.back();
      free_reads_.pop_back();
      reads_[read_idx] = {.request = request};
      Line(request.priority).push_back(read_idx);
    }
    Issue();
    return accepted;
  }

  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
    if (out.empty()) return 0;
    const Deadline deadline(timeout);
    size_t count = inner_->Reap(answers_, std::chrono::nanoseconds(0));
    for (;;) {
      for (DeviceCompletion& answer : std::span(answers_).first(count)) Take(answer);
      Issue();
      if (!done_.empty() || num_asked_ == 0) break;
      count = inner_->Reap(answers_, deadline.left());
      if (count == 0 && deadline.passed()) break;
    }
    size_t reaped = 0;
    for (; reaped < out.size() && !done_.empty(); ++reaped) {
      const size_t read_idx = done_.front();
      done_.pop_front();
      Read& read = reads_[read_idx];
      out[reaped] = {.tag = read.request.tag, .status = std::move(read.failure)};
      read = {};
      free_reads_.push_back(read_idx);
    }
    return reaped;
  }

  void Cancel(uint64_t tag) override {
    for (std::deque<size_t>& line : waiting_) {
      const auto found = Find(line, tag);
      if (found == line.end()) continue;
      const size_t read_idx = *found;
      line.erase(found);
      // Cut in part: the pieces at the device come back, and end it.
      Read& read = reads_[read_idx];
      if (read.failure.ok()) read.failure = {Code::kCancelled, "the read was cancelled"};
      if (read.num_pieces == 0) done_.push_back(read_idx);
      CancelPieces(read_idx);
      return;
    }
  }

  void Promote(uint64_t tag) override {
    std::deque<size_t>& prefetches = Line(ReadPriority::kPrefetch);
    const auto found = Find(prefetches, tag);
    if (found != prefetches.end()) {
      reads_[*found].request.priority = ReadPriority::kDemand;
      Line(ReadPriority::kDemand).push_back(*found);
      prefetches.erase(found);
    }
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].bytes > 0 && reads_[pieces_[i].read_idx].request.tag == tag) {
        inner_->Promote(i);
      }
    }
  }

  void Drain() override {
    inner_->Drain();
    for (std::deque<size_t>& line : waiting_) line.clear();
    refused_.clear();
    done_.clear();
    num_asked_ = 0;
    FreeAll();
  }

 private:
  struct Read {
    DeviceRead request{};
    size_t num_cut = 0;     // Bytes that pieces have been made for.
    size_t num_pieces = 0;  // Unfinished.
    Status failure{};       // Of the first piece that failed.
  };

  // What one buffer is used for; its number is its tag at the device.
  struct Piece {
    size_t read_idx = 0;
    size_t bytes = 0;       // Of the read's; 0: the buffer is free.
    size_t skip = 0;        // Bytes in the buffer before them.
    size_t out_offset = 0;  // Where they belong.
  };

  BounceQueue(const BlockDevice& device, const BounceDevice::Options& options, PageMemory memory,
              std::unique_ptr<ReadQueue> inner)
      : device_(device),
        buffer_bytes_(options.buffer_bytes),
        memory_(std::move(memory)),
        inner_(std::move(inner)),
        reads_(inner_->max_in_flight()),
        pieces_(options.num_buffers),
        answers_(options.num_buffers) {
    FreeAll();
  }

  void FreeAll() {
    free_reads_.clear();
    free_pieces_.clear();
    for (size_t i = reads_.size(); i-- > 0;) {
      reads_[i] = {};
      free_reads_.push_back(i);
    }
    for (size_t i = pieces_.size(); i-- > 0;) {
      pieces_[i] = {};
      free_pieces_.push_back(i);
    }
  }

  std::deque<size_t>& Line(ReadPriority priority) {
    return waiting_[priority == ReadPriority::kDemand ? 0 : 1];
  }
  std::deque<size_t>::iterator Find(std::deque<size_t>& line, uint64_t tag) {
    return std::find_if(line.begin(), line.end(), [this, tag](size_t read_idx) {
      return reads_[read_idx].request.tag == tag;
    });
  }

  // Pieces to the device, as long as there are free buffers and something to read.
  void Issue() {
    for (std::deque<size_t>& line : waiting_) {
      while (!line.empty() && !free_pieces_.empty()) {
        refused_.push_back(CutPiece(line.front()));
        const Read& read = reads_[line.front()];
        if (read.num_cut == read.request.out.size()) line.pop_front();
      }
    }
    if (refused_.empty()) return;
    const size_t accepted = inner_->Submit(refused_);
    num_asked_ += accepted;
    refused_.erase(refused_.begin(), refused_.begin() + static_cast<ptrdiff_t>(accepted));
  }

  DeviceRead CutPiece(size_t read_idx) {
    Read& read = reads_[read_idx];
    const DeviceRead& request = read.request;
    const uint64_t alignment = device_.alignment();
    const uint64_t begin = request.offset + read.num_cut;
    const uint64_t first = begin / alignment * alignment;
    const uint64_t end = std::min(request.offset + request.out.size(), first + buffer_bytes_);
    // A read that ends where the file ends may have any length. One that asks for more must fail.
    const uint64_t file_bytes = device_.file_bytes(request.file_idx);
    const uint64_t whole_blocks = RoundUp(end, alignment);
    const uint64_t last = end <= file_bytes ? std::min(whole_blocks, file_bytes) : whole_blocks;
    const size_t piece_idx = free_pieces_.back();
    free_pieces_.pop_back();
    pieces_[piece_idx] = {.read_idx = read_idx,
                          .bytes = static_cast<size_t>(end - begin),
                          .skip = static_cast<size_t>(begin - first),
                          .out_offset = read.num_cut};
    read.num_cut += pieces_[piece_idx].bytes;
    ++read.num_pieces;
    return {.file_idx = request.file_idx,
            .offset = first,
            .out = Buffer(piece_idx).first(static_cast<size_t>(last - first)),
            .tag = piece_idx,
            .priority = request.priority};
  }

  std::span<std::byte> Buffer(size_t piece_idx) {
    return memory_.bytes().subspan(piece_idx * buffer_bytes_, buffer_bytes_);
  }

  void Take(DeviceCompletion& answer) {
    --num_asked_;
    const size_t piece_idx = answer.tag;
    const Piece piece = pieces_[piece_idx];
    Read& read = reads_[piece.read_idx];
    if (!answer.status.ok()) {
      if (read.failure.ok()) {
        read.failure = std::move(answer.status);
        // The rest is of no use.
        std::erase(Line(read.request.priority), piece.read_idx);
        CancelPieces(piece.read_idx);
      }
    } else if (read.failure.ok()) {
      std::memcpy(read.request.out.data() + piece.out_offset, Buffer(piece_idx).data() + piece.skip,
                  piece.bytes);
    }
    FreePiece(piece_idx);
  }

  void FreePiece(size_t piece_idx) {
    const size_t read_idx = pieces_[piece_idx].read_idx;
    pieces_[piece_idx] = {};
    free_pieces_.push_back(piece_idx);
    Read& read = reads_[read_idx];
    --read.num_pieces;
    const bool whole = read.num_cut == read.request.out.size();
    if (read.num_pieces == 0 && (whole || !read.failure.ok())) done_.push_back(read_idx);
  }

  void CancelPieces(size_t read_idx) {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].bytes > 0 && pieces_[i].read_idx == read_idx) inner_->Cancel(i);
    }
  }

  const BlockDevice& device_;  // That `inner_` reads.
  const uint64_t buffer_bytes_;
  PageMemory memory_;
  const std::unique_ptr<ReadQueue> inner_;  // Destroyed before the memory that it reads into.
  std::vector<Read> reads_;
  std::vector<size_t> free_reads_;  // Indexes into reads_.
  std::deque<size_t> waiting_[2];   // Likewise, demands and prefetches: not cut to the end.
  std::deque<size_t> done_;         // Likewise: not reaped.
  std::vector<Piece> pieces_;
  std::vector<size_t> free_pieces_;        // Indexes into pieces_.
  std::vector<DeviceRead> refused_;        // Pieces that the device had no room for.
  size_t num_asked_ = 0;                   // Pieces that the device has.
  std::vector<DeviceCompletion> answers_;  // Room for Reap.
};

}  // namespace

Result<std::unique_ptr<BounceDevice>> BounceDevice::Create(std::unique_ptr<BlockDevice> inner,
                                                           const Options& options) {
  const uint64_t alignment = inner->alignment();
  if (options.num_buffers < 1 || options.buffer_bytes < 2 * alignment ||
      options.buffer_bytes % alignment != 0) {
    return Error(Code::kInvalidArgument,
                 "{} buffers of {} bytes: at least one, of at least two times {} bytes and a "
                 "multiple of that",
                 options.num_buffers, options.buffer_bytes, alignment);
  }
  return std::unique_ptr<BounceDevice>(new BounceDevice(std::move(inner), options));
}

Result<std::unique_ptr<ReadQueue>> BounceDevice::OpenQueue() {
  return BounceQueue::Open(*inner_, options_);
}

}  // namespace picchio
