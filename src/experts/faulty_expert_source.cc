#include "experts/faulty_expert_source.h"

#include <cstring>

namespace picchio {

FaultyExpertSource::FaultyExpertSource(std::unique_ptr<ExpertSource> inner, FaultPlan plan)
    : inner_(std::move(inner)),
      faults_(std::move(plan),
              {Code::kNotFound, Code::kCorrupt, Code::kIoError, Code::kUnavailable}) {}

size_t FaultyExpertSource::Submit(std::span<const ReadRequest> requests) {
  const size_t room = faults_.Room(requests.size(), max_in_flight());
  const size_t accepted = room == 0 ? 0 : inner_->Submit(requests.first(room));
  for (const ReadRequest& request : requests.first(accepted)) {
    faults_.Accept(request.tag, {.key = request.key, .data = request.slot.data});
  }
  return accepted;
}

size_t FaultyExpertSource::Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) {
  return faults_.HandOut(
      out, timeout,
      [this](std::span<Completion> batch, std::chrono::nanoseconds wait) {
        return inner_->Reap(batch, wait);
      },
      [this](Completion& completion, const Read& read, Code code) {
        completion.status =
            Error(code, "{}: injected fault ({})", ToString(read.key), CodeName(code));
        if (read.data != nullptr) std::memset(read.data, 0xdb, layout().record_bytes);
        ++num_injected_;
      });
}

void FaultyExpertSource::Drain() {
  inner_->Drain();
  faults_.Clear();
}

}  // namespace picchio
