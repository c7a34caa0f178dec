#include "io/transfer_faults.h"

#include <cerrno>

namespace picchio {

int64_t TransferFaults::Alter(int64_t result, bool direct) {
  const std::scoped_lock lock(mutex_);
  // 53 bits fill a double exactly: the same draws on every platform.
  double draw = static_cast<double>(random_() >> 11) * 0x1p-53;
  const auto happens = [&draw](double rate) {
    draw -= rate;
    return draw < 0;
  };
  const int64_t before = result;
  if (happens(plan_.interrupt_rate)) {
    result = -EINTR;
  } else if (happens(plan_.again_rate)) {
    result = -EAGAIN;
  } else if (happens(plan_.error_rate) || (direct && happens(plan_.direct_error_rate))) {
    result = -EIO;
  } else if (happens(plan_.short_rate)) {
    const int64_t unit = direct ? 512 : 1;
    if (result > unit) result = unit * (1 + static_cast<int64_t>(random_() >> 1) % (result / unit));
  }
  if (result != before) ++num_altered_;
  return result;
}

uint64_t TransferFaults::num_altered() const {
  const std::scoped_lock lock(mutex_);
  return num_altered_;
}

}  // namespace picchio
