// What `picchio bench run` says: for people, for programs, and as a page with charts.
#pragma once

#include <string>

#include "apps/bench/run_benchmark.h"
#include "base/json.h"

namespace picchio {

std::string RunBenchText(const RunBenchReport& report);
Json RunBenchJson(const RunBenchReport& report);
std::string RunBenchHtml(const RunBenchReport& report);  // The whole file.

// In a sentence: how fast B decodes beside A, and whether the pairs show a difference at all.
std::string RunBenchVerdict(const RunBenchReport& report);

}  // namespace picchio
