// `picchio doctor`: everything about this machine and a place on it that decides how fast experts
// are read, line by line, with what would mend it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/doctor/finding.h"
#include "apps/doctor/measure_read_rate.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"

namespace picchio {

struct DoctorReport {
  std::string path{};
  std::vector<Finding> findings{};
  std::optional<MeasuredReadRate>
      rate{};  // None where it could not be measured: a finding says so.
};

// `path` is a file, a folder or a block device. Fails where there is nothing of that name. `root`
// is where /proc and /sys are, for tests.
Result<DoctorReport> Examine(const Path& path, const ReadRateOptions& options,
                             const Path& root = "/");

// A line for each finding, its remedy below it.
std::string DoctorText(const DoctorReport& report);
Json DoctorJson(const DoctorReport& report);

}  // namespace picchio
