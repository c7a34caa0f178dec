#include "apps/interrupt.h"

#include <csignal>

namespace picchio {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch such");

void OnSignal(int signal_number) {
  if (g_interrupted.exchange(true)) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

}  // namespace

const std::atomic<bool>& InterruptFlag() {
  static const bool installed = [] {
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    return true;
  }();
  (void)installed;
  return g_interrupted;
}

}  // namespace picchio
