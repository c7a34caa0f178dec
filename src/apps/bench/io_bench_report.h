// What `picchio bench io` says: for people, for programs, and as a page with charts.
#pragma once

#include <string>

#include "apps/bench/io_benchmark.h"
#include "base/json.h"

namespace picchio {

std::string IoBenchText(const IoBenchReport& report);
Json IoBenchJson(const IoBenchReport& report);
std::string IoBenchHtml(const IoBenchReport& report);  // The whole file.

// In a sentence or two: the peak, from which depth on it is reached, and whether it is the drive's.
std::string IoBenchVerdict(const IoBenchReport& report);

}  // namespace picchio
