#include "experts/faulty_expert_source.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace picchio {

bool FaultyExpertSource::Draw(double rate) {
  // 53 bits fill a double exactly: the same draws on every platform.
  return rate > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < rate;
}

size_t FaultyExpertSource::Submit(std::span<const ReadRequest> requests) {
  size_t room = std::min(requests.size(), max_in_flight() - reads_.size());
  if (room > 0 && Draw(plan_.refuse_rate)) {
    const size_t least = reads_.empty() ? 1 : 0;
    room = least + random_() % (room + 1 - least);
  }
  std::vector<ReadRequest> uncut(requests.begin(), requests.begin() + static_cast<ptrdiff_t>(room));
  for (ReadRequest& request : uncut) request.cut_bytes = 0;
  const size_t accepted = room == 0 ? 0 : inner_->Submit(uncut);
  for (const ReadRequest& request : std::span(uncut).first(accepted)) {
    Read read{.key = request.key, .data = request.slot.data};
    if (Draw(plan_.fail_rate) && !plan_.codes.empty()) {
      read.fault = plan_.codes[random_() % plan_.codes.size()];
    }
    if (const auto at = plan_.fail_reads.find(num_accepted_); at != plan_.fail_reads.end()) {
      read.fault = at->second;
    }
    read.delayed = Draw(plan_.delay_rate);
    reads_.emplace(request.tag, read);
    ++num_accepted_;
  }
  return accepted;
}

size_t FaultyExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) {
  if (out.empty()) return 0;
  const Deadline deadline(timeout);
  for (;;) {
    TakeFromInner(std::chrono::nanoseconds(0));
    const size_t count = HandOut(out);
    if (count > 0 || reads_.empty() || deadline.passed()) return count;
    std::chrono::nanoseconds wait = deadline.left();
    for (const Held& held : held_) {
      wait = std::min<std::chrono::nanoseconds>(wait, held.release - Clock::now());
    }
    if (reads_.size() > held_.size()) {
      TakeFromInner(wait);
    } else {
      std::this_thread::sleep_for(wait);
    }
  }
}

void FaultyExpertSource::TakeFromInner(std::chrono::nanoseconds timeout) {
  Completion batch[16];
  size_t count;
  do {
    count = inner_->Reap(batch, timeout);
    timeout = std::chrono::nanoseconds(0);
    for (Completion& completion : std::span(batch).first(count)) {
      const Read& read = reads_.at(completion.tag);
      if (completion.status.ok() && read.fault) {
        completion.status = Error(*read.fault, "{}: injected fault ({})", ToString(read.key),
                                  CodeName(*read.fault));
        completion.ready_bytes = 0;
        if (read.data != nullptr) std::memset(read.data, 0xdb, layout().record_bytes);
        ++num_injected_;
      }
      const Clock::time_point now = Clock::now();
      held_.push_back({std::move(completion), read.delayed ? now + plan_.delay : now});
    }
  } while (count == std::size(batch));
}

size_t FaultyExpertSource::HandOut(std::span<Completion> out) {
  const Clock::time_point now = Clock::now();
  std::vector<size_t> due;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].release <= now) due.push_back(i);
  }
  size_t count = std::min(out.size(), due.size());
  if (plan_.shuffle && count > 0) {
    for (size_t i = due.size() - 1; i > 0; --i) std::swap(due[i], due[random_() % (i + 1)]);
    count = 1 + random_() % count;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = std::move(held_[due[i]].completion);
    reads_.erase(out[i].tag);
  }
  std::sort(due.begin(), due.begin() + static_cast<ptrdiff_t>(count), std::greater<>());
  for (size_t i = 0; i < count; ++i) held_.erase(held_.begin() + static_cast<ptrdiff_t>(due[i]));
  return count;
}

void FaultyExpertSource::Drain() {
  inner_->Drain();
  held_.clear();
  reads_.clear();
}

}  // namespace picchio
