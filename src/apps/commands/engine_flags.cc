#include "apps/commands/engine_flags.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/commands/flag_checks.h"
#include "base/printable.h"

namespace picchio {
namespace {

// The whole number in an environment variable; `fallback` where it is not set.
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

// Whether an environment variable says 1; `fallback` where it is not set.
Result<bool> EnvironmentSwitch(const char* name, bool fallback = false) {
  const char* text = std::getenv(name);
  const std::string_view view = text == nullptr ? "" : text;
  if (view == "1") return true;
  if (view.empty()) return fallback;
  if (view == "0") return false;
  return Error(Code::kInvalidArgument, "the environment variable {} is {}, expected 0 or 1", name,
               Quoted(view));
}

// What the flag's check let through.
std::optional<uint64_t> CacheBytes(const std::string& text) {
  if (text == "auto") return std::nullopt;
  return static_cast<uint64_t>(std::strtod(text.c_str(), nullptr) * 0x1p30);
}

}  // namespace

void EngineFlags::AddTo(Command& command) {
  command.Option("MODEL,-m,--model", model, "Folder of the model").Required().Check(NotEmpty());
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
  cache_policy = CachePolicyName(kDefaultCachePolicy);
  std::vector<std::string> policies;
  policies.reserve(std::size(kCachePolicies));
  for (const CachePolicy policy : kCachePolicies) policies.emplace_back(CachePolicyName(policy));
  command.Option("--cache-policy", cache_policy, "What the expert cache holds on to")
      .OneOf(policies)
      .ShowDefault();
  command
      .Option("--warm-start", warm_start,
              "Load the experts that earlier runs used most, while this one begins: on or off")
      .OneOf({"on", "off"})
      .ShowDefault();
  command
      .Option("--trace", trace,
              "Write which experts each layer asked for to this file, for picchio bench cache")
      .Check(NotEmpty());
  command
      .Option("--prefill-span", prefill_span,
              "Positions of a prompt that go through a layer together (default: up to 4096)")
      .Check(WholeNumberFrom(1, 1 << 16));
  command
      .Option("--compute", compute,
              "Activations of the quantised products: int8, or f32 (slow, for comparisons)")
      .OneOf({"int8", "f32"})
      .ShowDefault();
  flat_flag_ = command.Option(
      "--flat", flat,
      "Aligned store to read experts from, 0: none (default: MODEL/experts.picchioflat)");
  flat_flag_.Check(NotEmpty());
  flat_verify_flag_ =
      command.Switch("--flat-verify,!--no-flat-verify", flat_verify,
                     "Check the SHA-256 of each of the store's records as it is loaded");
  command.Switch("--flat-trust", flat_trust,
                 "Take a store of version 2 that the model's manifest does not list");
  io_flag_ = command.Option("--io", io,
                            "How experts are read: buffered (through the page cache), direct (past "
                            "it, by threads), uring "
                            "(past it, by io_uring), or auto: the best that works here");
  io_flag_.OneOf({"auto", "buffered", "direct", "uring"}).ShowDefault();
  command.Option("--qd", queue_depth, "Reads at the device at once, or auto")
      .Check(WholeNumberFrom(1, 4096, "auto"))
      .ShowDefault();
  async_flag_ =
      command.Option("--async", async_moe,
                     "Compute with the experts that are there while others are read; off: "
                     "read all of a layer first");
  async_flag_.OneOf({"on", "off"}).ShowDefault();
  command
      .Option("--prefetch", prefetch,
              "Read ahead what the next layer will probably ask for: on, off, or auto: where that "
              "was measured to gain, which is nowhere so far")
      .OneOf({"off", "auto", "on"})
      .ShowDefault();
}

Result<StorageOptions> EngineFlags::Storage() const {
  StorageOptions options;
  PICCHIO_ASSIGN_OR_RETURN(const int environment_threads, EnvironmentNumber("IO_THREADS", 0, 1024));
  if (queue_depth == "auto") {
    options.num_io_threads = environment_threads;
  } else {
    options.queue_depth = std::atoi(queue_depth.c_str());
  }
  PICCHIO_ASSIGN_OR_RETURN(options.io, ParseIoKind(io));
  PICCHIO_ASSIGN_OR_RETURN(const bool environment_direct, EnvironmentSwitch("DIRECT"));
  if (environment_direct && !io_flag_.given()) options.io = IoKind::kDirect;
  const bool said = flat_flag_.given();
  const char* environment = std::getenv("FLAT");
  const std::string store = said ? flat : environment == nullptr ? "" : environment;
  if (store == "0") {
    options.flat_off = true;
  } else if (!store.empty()) {
    options.flat = Path(store);
  }
  PICCHIO_ASSIGN_OR_RETURN(const bool environment_verify, EnvironmentSwitch("FLAT_VERIFY"));
  const bool verify_said = flat_verify_flag_.given();
  options.flat_verify = verify_said ? flat_verify : environment_verify;
  options.flat_trust = flat_trust;
  return options;
}

Result<EngineOptions> EngineFlags::Options() const {
  EngineOptions options;
  if (context > 0) options.memory.context = static_cast<uint32_t>(context);
  options.memory.cache_bytes = CacheBytes(cache_gb);
  PICCHIO_ASSIGN_OR_RETURN(const int environment_slots, EnvironmentNumber("ECAP", 0, 1 << 20));
  const int slots = slots_per_layer > 0          ? slots_per_layer
                    : options.memory.cache_bytes ? 0
                                                 : environment_slots;
  if (slots > 0) options.memory.slots_per_layer = static_cast<uint32_t>(slots);
  PICCHIO_ASSIGN_OR_RETURN(const int environment_threads,
                           EnvironmentNumber("OMP_NUM_THREADS", 0, 1024));
  options.num_threads = threads > 0 ? threads : environment_threads;
  PICCHIO_ASSIGN_OR_RETURN(options.storage, Storage());
  options.notice = [](std::string_view said) {
    std::fprintf(stderr, "note: %.*s\n", static_cast<int>(said.size()), said.data());
  };
  options.cache_policy = FindCachePolicy(cache_policy).value_or(kDefaultCachePolicy);
  options.warm_start = warm_start == "on";
  if (!trace.empty()) options.trace = Path(trace);
  PICCHIO_ASSIGN_OR_RETURN(const bool environment_async, EnvironmentSwitch("ASYNC_MOE", true));
  options.async_moe = async_flag_.given() ? async_moe == "on" : environment_async;
  options.prefetch = prefetch == "on"    ? Prefetch::kOn
                     : prefetch == "off" ? Prefetch::kOff
                                         : Prefetch::kAuto;
  if (prefill_span > 0) options.memory.prefill_span = static_cast<uint32_t>(prefill_span);
  options.compute = compute == "f32" ? Compute::kF32 : Compute::kInt8;
  return options;
}

}  // namespace picchio
