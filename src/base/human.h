// Amounts as people read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace picchio {

// "1.50 GB", "830 MB", "12 kB", "7 B": powers of ten, as disks and rates are told.
std::string FormatBytes(double bytes);
inline std::string FormatBytes(uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

// "1.50 GiB", "96.0 MiB", "512 B": powers of two, as memory is told; three significant digits or
// all before the point.
std::string FormatMemory(uint64_t bytes);

inline double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// "0.4 s", "17 s", "3 min 20 s", "1 h 05 min".
std::string FormatDuration(double seconds);

}  // namespace picchio
