#include "apps/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/human.h"

namespace picchio {
namespace {

using namespace std::chrono_literals;

constexpr auto kQuietStart = 2s;
constexpr auto kTerminalInterval = 200ms;
constexpr auto kPlainInterval = 10s;

}  // namespace

Progress::Surroundings Progress::Surroundings::OfTheProcess() {
  return {.terminal = isatty(STDERR_FILENO) == 1, .now = &Clock::now};
}

Progress::Progress(std::string label, uint64_t total, std::string unit, Surroundings surroundings)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      surroundings_(surroundings),
      start_(surroundings.now()),
      next_draw_ns_(std::chrono::nanoseconds(kQuietStart).count()) {}

Progress::~Progress() {
  const std::lock_guard lock(draw_mutex_);
  if (drawn_ && surroundings_.terminal) std::fputs("\r\033[K", stderr);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(surroundings_.now() - start_).count();
}

void Progress::SetDone(uint64_t done) {
  const uint64_t before = done_.load(std::memory_order_relaxed);
  Add(done > before ? done - before : 0);
}

void Progress::SetAside(std::string aside) {
  const std::lock_guard lock(draw_mutex_);
  aside_ = std::move(aside);
}

void Progress::Add(uint64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  const Clock::time_point now = surroundings_.now();
  const int64_t elapsed_ns = std::chrono::nanoseconds(now - start_).count();
  int64_t due = next_draw_ns_.load(std::memory_order_relaxed);
  if (elapsed_ns < due) return;
  const int64_t next =
      elapsed_ns + (surroundings_.terminal ? std::chrono::nanoseconds(kTerminalInterval)
                                           : std::chrono::nanoseconds(kPlainInterval))
                       .count();
  // Whoever moves the deadline draws; the others go on with their work.
  if (next_draw_ns_.compare_exchange_strong(due, next)) Draw(now);
}

void Progress::Draw(Clock::time_point now) {
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed));
  const auto total = static_cast<double>(total_);
  const double share = total > 0 ? std::min(1.0, done / total) : 1.0;
  const double rate = done / elapsed;
  const double left = rate > 0 ? (total - std::min(done, total)) / rate : 0;
  const std::string amounts =
      unit_ == "B"
          ? fmt::format("{} of {}, {}/s", FormatBytes(done), FormatBytes(total), FormatBytes(rate))
          : fmt::format("{:.0f} of {:.0f} {}, {:.1f}/s", done, total, unit_, rate);

  const std::lock_guard lock(draw_mutex_);
  const std::string tail = fmt::format("{:3.0f} %  {}, {} left{}{}", 100 * share, amounts,
                                       FormatDuration(left), aside_.empty() ? "" : "; ", aside_);
  drawn_ = true;
  if (!surroundings_.terminal) {
    std::fprintf(stderr, "%s: %s\n", label_.c_str(), tail.c_str());
    return;
  }
  constexpr int kBarWidth = 24;
  const int filled = static_cast<int>(share * kBarWidth);
  std::fprintf(stderr, "\r\033[K%s [%s%s] %s", label_.c_str(), std::string(filled, '#').c_str(),
               std::string(kBarWidth - filled, '.').c_str(), tail.c_str());
  std::fflush(stderr);
}

}  // namespace picchio
