#include "apps/commands/engine_flags.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "apps/commands/flag_checks.h"
#include "base/printable.h"

namespace picchio {
namespace {

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

}  // namespace

void EngineFlags::AddTo(Command& command) {
  command.Option("MODEL,-m,--model", model, "Folder of the model").Required().Check(NotEmpty());
  resources.AddTo(command);
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
  PICCHIO_ASSIGN_OR_RETURN(options.memory, resources.Memory());
  PICCHIO_ASSIGN_OR_RETURN(options.num_threads, resources.Threads());
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
  options.compute = compute == "f32" ? Compute::kF32 : Compute::kInt8;
  return options;
}

}  // namespace picchio
