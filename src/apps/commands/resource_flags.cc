#include "apps/commands/resource_flags.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/printable.h"

namespace picchio {
namespace {

// What the flag's check let through.
std::optional<uint64_t> CacheBytes(const std::string& text) {
  if (text == "auto") return std::nullopt;
  return static_cast<uint64_t>(std::strtod(text.c_str(), nullptr) * 0x1p30);
}

}  // namespace

void ResourceFlags::AddTo(Command& command) {
  command.Option("-c,--ctx", context, "Positions of the context (default: up to 8192)")
      .Check(WholeNumberFrom(1, 1 << 26));
  command.Option("-t,--threads", threads, "Compute threads (default: all CPUs)")
      .Check(WholeNumberFrom(1, 1024));
  command
      .Option("--cache-gb", cache_gb,
              "Memory for the expert cache in GiB, or auto: what is free, but for a reserve")
      .Check(NumberFrom(1e-6, 1e6, "auto"))
      .ShowDefault();
  command
      .Option("--ecap", slots_per_layer, "So many records of each MoE layer instead, none shared")
      .Check(WholeNumberFrom(1, 1 << 20));
  command
      .Option("--prefill-span", prefill_span,
              "Positions of a prompt that go through a layer together (default: up to 4096)")
      .Check(WholeNumberFrom(1, 1 << 16));
}

Result<MemoryWishes> ResourceFlags::Memory() const {
  MemoryWishes wishes;
  if (context > 0) wishes.context = static_cast<uint32_t>(context);
  wishes.cache_bytes = CacheBytes(cache_gb);
  PICCHIO_ASSIGN_OR_RETURN(const int environment_slots, EnvironmentNumber("ECAP", 0, 1 << 20));
  const int slots = slots_per_layer > 0  ? slots_per_layer
                    : wishes.cache_bytes ? 0
                                         : environment_slots;
  if (slots > 0) wishes.slots_per_layer = static_cast<uint32_t>(slots);
  if (prefill_span > 0) wishes.prefill_span = static_cast<uint32_t>(prefill_span);
  return wishes;
}

Result<int> ResourceFlags::Threads() const {
  PICCHIO_ASSIGN_OR_RETURN(const int environment_threads,
                           EnvironmentNumber("OMP_NUM_THREADS", 0, 1024));
  return threads > 0 ? threads : environment_threads;
}

Result<int> EnvironmentNumber(const char* name, int fallback, int max) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  // OMP_NUM_THREADS may list a number for every level of nesting: the first is ours.
  const std::string_view view = std::string_view(text).substr(0, std::string_view(text).find(','));
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 1 || value > max) {
    return Error(Code::kInvalidArgument,
                 "the environment variable {} is {}, expected a whole number from 1 to {}", name,
                 Quoted(text), max);
  }
  return value;
}

}  // namespace picchio
