#include "io/transfer.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace picchio {
namespace {

// A request that is interrupted so often without a byte of progress will be for ever.
constexpr int kMaxStalls = 100;

}  // namespace

Transfer::Request Transfer::Next() const {
  const uint64_t bytes = std::min<uint64_t>(left_.size(), max_request_bytes_);
  const uint64_t unit = file_->direct_alignment;
  if (direct_ && offset_ % unit == 0 && reinterpret_cast<uintptr_t>(left_.data()) % unit == 0 &&
      bytes >= unit) {
    return {.direct = true, .offset = offset_, .out = left_.first(bytes / unit * unit)};
  }
  return {.direct = false, .offset = offset_, .out = left_.first(bytes)};
}

void Transfer::Answered(int64_t result, DeviceStatistics& statistics) {
  const Request request = Next();
  if (result > 0) {
    auto bytes = std::min(static_cast<uint64_t>(result), request.out.size());
    if (bytes < request.out.size()) {
      statistics.AddResumed();
      // Only from a multiple of the unit can the rest be asked for unbuffered too.
      const uint64_t whole =
          request.direct ? bytes / file_->direct_alignment * file_->direct_alignment : 0;
      if (whole > 0) bytes = whole;
    }
    request.direct ? statistics.AddDirect(bytes) : statistics.AddBuffered(bytes);
    num_stalls_ = 0;
    offset_ += bytes;
    left_ = left_.subspan(bytes);
    return;
  }
  if (result == 0) {
    status_ = Error(Code::kIoError, "{} ends at byte {}, {} bytes before the end of what was asked",
                    file_->name, offset_, left_.size());
    return;
  }
  const int error = static_cast<int>(-result);
  if ((error == EINTR || error == EAGAIN) && ++num_stalls_ <= kMaxStalls) {
    statistics.AddResumed();
    return;
  }
  if (request.direct) {
    direct_ = false;
    num_stalls_ = 0;
    statistics.AddDirectFailure();
    statistics.Note("direct read " + file_->name,
                    fmt::format("{}: an unbuffered read at byte {} failed ({}); such reads are "
                                "repeated through the page cache",
                                file_->name, offset_, std::generic_category().message(error)));
    return;
  }
  status_ = ErrnoError(error, fmt::format("cannot read {} at byte {}", file_->name, offset_));
}

}  // namespace picchio
