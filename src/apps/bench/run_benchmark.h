// `picchio bench run`: two sets of flags for `picchio run`, measured against each other in turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/run_flags.h"
#include "apps/bench/run_sample.h"
#include "apps/bench/sample_statistics.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

struct RunBenchOptions {
  Path program{};  // What is run: `picchio` itself.
  Path model{};
  RunFlagSet a{};
  RunFlagSet b{};
  int pairs = 6;      // The fewest with a 95 % interval.
  bool cold = false;  // Before every run the model's files leave the page cache.
  Path drop_control = "/proc/sys/vm/drop_caches";
};

// One measure of both, over all pairs.
struct RunComparison {
  const RunMeasure* measure = nullptr;
  double a = 0;  // Medians.
  double b = 0;
  // Of B / A of each pair; none where A is 0 in one.
  std::optional<double> ratio{};
  std::optional<Interval> interval{};  // Of that, 95 %; none with fewer than six pairs too.
};

struct RunBenchReport {
  std::string model{};
  std::string cpu{};
  std::string kernel{};
  std::string build{};
  std::string a_flags{};  // With what was added to them.
  std::string b_flags{};
  std::string cold{};          // How the page cache was emptied; empty where it was left as it was.
  std::vector<RunSample> a{};  // By pair.
  std::vector<RunSample> b{};
  std::vector<std::string> notes{};
};

// What the flags do not say, for both alike: a prompt, the number of tokens, and a cache that
// begins empty, so that no run starts from what another has learnt.
RunFlagSet WithUsualFlags(const RunFlagSet& flags);

// Runs A B, B A, A B and so on. All runs must give the same token ids: fails with kCorrupt, naming
// the position of the first difference, where they do not. Fails as RunChild does, saying which run
// it was; `stop` ends it with kCancelled. Shows progress.
Result<RunBenchReport> RunRunBench(const RunBenchOptions& options, const std::atomic<bool>& stop);

// Those measures that every run reports.
std::vector<RunComparison> Compare(const RunBenchReport& report);

}  // namespace picchio
