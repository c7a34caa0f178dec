// Whether the place where a model lies lets reads be as fast as they can.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/doctor/disk_facts.h"
#include "apps/doctor/finding.h"

namespace picchio {

Finding CheckFileSystem(const std::string& name);

// What unbuffered access to the file asks for (0: there is none, and why), beside the block size of
// the store that it is (0: it is no store).
Finding CheckUnbuffered(uint64_t alignment, const std::string& why_not, uint64_t store_block_size);

// Drive and bus: what no software moves is named. None: sysfs does not know it.
Finding CheckDisk(const std::optional<DiskFacts>& disk);
Finding CheckQueue(const DiskFacts& disk);

// A measured rate, beside what the bus can do.
Finding CheckRate(double bytes_per_second, const std::string& how,
                  const std::optional<DiskFacts>& disk);

}  // namespace picchio
