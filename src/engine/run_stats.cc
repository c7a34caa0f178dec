#include "engine/run_stats.h"

namespace picchio {
namespace {

// The counters only grow, so a phase is the difference of two readings. One list of the fields for
// both directions, so that none is forgotten in one of them.
template <typename Combine>
void ForEachField(StepStats& a, const StepStats& b, Combine&& combine) {
  combine(a.attention, b.attention);
  combine(a.mlp, b.mlp);
  combine(a.storage_wait, b.storage_wait);
  combine(a.head, b.head);
  combine(a.total, b.total);
  combine(a.steps, b.steps);
  combine(a.rows, b.rows);
  combine(a.foreseeable, b.foreseeable);
  combine(a.foreseen, b.foreseen);
}

template <typename Combine>
void ForEachField(CacheStats& a, const CacheStats& b, Combine&& combine) {
  combine(a.hits, b.hits);
  combine(a.misses, b.misses);
  combine(a.reads, b.reads);
  combine(a.failed_reads, b.failed_reads);
  combine(a.bytes, b.bytes);
  combine(a.fallbacks, b.fallbacks);
  combine(a.waves, b.waves);
  combine(a.prefetched, b.prefetched);
  combine(a.prefetch_used, b.prefetch_used);
  combine(a.prefetch_wasted_bytes, b.prefetch_wasted_bytes);
  combine(a.preloaded, b.preloaded);
  combine(a.timeouts, b.timeouts);
  combine(a.wait, b.wait);
  combine(a.reading, b.reading);
}

template <typename Stats>
Stats Difference(Stats now, const Stats& before) {
  ForEachField(now, before, [](auto& a, const auto& b) { a -= b; });
  return now;
}

}  // namespace

double PhaseStats::tokens_per_second() const {
  const double seconds = std::chrono::duration<double>(duration).count();
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

PhaseStats& PhaseStats::operator+=(const PhaseStats& other) {
  const auto add = [](auto& a, const auto& b) { a += b; };
  add(tokens, other.tokens);
  add(duration, other.duration);
  ForEachField(step, other.step, add);
  ForEachField(cache, other.cache, add);
  return *this;
}

PhaseMeter::PhaseMeter(const ForwardPass& forward, const ExpertCache& experts, PhaseStats& stats)
    : forward_(forward),
      experts_(experts),
      stats_(stats),
      begin_(std::chrono::steady_clock::now()),
      step_before_(forward.stats()),
      cache_before_(experts.stats()) {}

PhaseMeter::~PhaseMeter() {
  stats_.duration = std::chrono::steady_clock::now() - begin_;
  stats_.step = Difference(forward_.stats(), step_before_);
  stats_.cache = Difference(experts_.stats(), cache_before_);
}

}  // namespace picchio
