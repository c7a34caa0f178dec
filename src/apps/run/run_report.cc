#include "apps/run/run_report.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/human.h"

namespace picchio {
namespace {

double GigabytesPerSecond(const PhaseStats& phase) {
  const double seconds = Seconds(phase.duration);
  return seconds > 0 ? static_cast<double>(phase.cache.bytes) / 1e9 / seconds : 0;
}

double HitRate(const CacheStats& cache) {
  const uint64_t asked = cache.hits + cache.misses;
  return asked > 0 ? static_cast<double>(cache.hits) / static_cast<double>(asked) : 0;
}

// With reads at the source and something else to do meanwhile.
std::chrono::nanoseconds HiddenReading(const PhaseStats& phase) {
  return std::max(phase.cache.reading - phase.cache.wait, std::chrono::nanoseconds(0));
}

std::string PhaseTable(const char* name, const PhaseStats& phase) {
  if (phase.tokens == 0) return fmt::format("{:<7} nothing to run\n", name);
  const double total = Seconds(phase.duration);
  const auto share = [&](std::chrono::nanoseconds part) {
    return fmt::format("{} ({:.0f} %)", FormatDuration(Seconds(part)),
                       total > 0 ? 100 * Seconds(part) / total : 0);
  };
  std::string table = fmt::format(
      "{:<7} {} tokens in {}, {:.2f} tok/s\n"
      "        attention {}, MoE {}, storage wait {}, head {}; reading hidden behind work {}\n"
      "        {:.1f} % of {} experts were cached; {} reads, {}, {:.2f} GB/s\n",
      name, phase.tokens, FormatDuration(total), phase.tokens_per_second(),
      share(phase.step.attention), share(phase.step.mlp), share(phase.step.storage_wait),
      share(phase.step.head), share(HiddenReading(phase)), 100 * HitRate(phase.cache),
      phase.cache.hits + phase.cache.misses, phase.cache.reads, FormatBytes(phase.cache.bytes),
      GigabytesPerSecond(phase));
  if (phase.cache.waves > 0) {
    table += fmt::format(
        "        {} times a layer's experts had to be read in parts, for want of slots\n",
        phase.cache.waves);
  }
  return table;
}

// Of the experts that were chosen where they had been predicted, those that the prediction named.
double Recall(const StepStats& step) {
  return step.foreseeable > 0
             ? static_cast<double>(step.foreseen) / static_cast<double>(step.foreseeable)
             : 0;
}

std::string DeviceTable(const DeviceInUse& in_use) {
  const DeviceReport report = in_use.device->Report();
  std::string table = fmt::format("        {}\n", in_use.choice);
  if (report.num_reads > 0) {
    table +=
        fmt::format("        {} reads, {} past the page cache, {} through it", report.num_reads,
                    FormatBytes(report.direct_bytes), FormatBytes(report.buffered_bytes));
    if (report.registered_bytes > 0) {
      table += fmt::format(", into {} of registered memory", FormatMemory(report.registered_bytes));
    }
    if (report.num_direct_failures > 0) {
      table += fmt::format("; {} failed unbuffered and were repeated", report.num_direct_failures);
    }
    table += "\n";
  }
  for (const std::string& note : report.notes) table += fmt::format("        {}\n", note);
  return table;
}

Json DeviceJson(const DeviceInUse& in_use) {
  const DeviceReport report = in_use.device->Report();
  return {{"choice", in_use.choice},
          {"reads", report.num_reads},
          {"direct_bytes", report.direct_bytes},
          {"buffered_bytes", report.buffered_bytes},
          {"resumed", report.num_resumed},
          {"retried_buffered", report.num_direct_failures},
          {"registered_bytes", report.registered_bytes},
          {"notes", report.notes}};
}

std::string StorageTable(const Engine& engine) {
  std::string table;
  for (size_t i = 0; i < engine.tiers().size(); ++i) {
    const TierStats& tier = engine.tiers()[i];
    table += fmt::format("{:<7} {} records from {}", table.empty() ? "storage" : "", tier.served,
                         tier.name);
    if (tier.failed > 0) table += fmt::format(", {} not served", tier.failed);
    if (tier.given_up > 0) table += fmt::format(", {} not answered in time", tier.given_up);
    table += "\n" + DeviceTable(engine.devices()[i]);
  }
  if (!engine.store_refusal().empty()) {
    table += fmt::format("        store refused: {}\n", engine.store_refusal());
  }
  return table;
}

Json StorageJson(const Engine& engine) {
  Json tiers = Json::array();
  for (size_t i = 0; i < engine.tiers().size(); ++i) {
    const TierStats& tier = engine.tiers()[i];
    tiers.push_back({{"name", tier.name},
                     {"served", tier.served},
                     {"failed", tier.failed},
                     {"given_up", tier.given_up},
                     {"io", DeviceJson(engine.devices()[i])}});
  }
  Json json{{"tiers", std::move(tiers)},
            {"store_refused", nullptr},
            {"async", engine.experts().overlap()}};
  if (!engine.store_refusal().empty()) json["store_refused"] = engine.store_refusal();
  return json;
}

}  // namespace

uint64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void PrintNotes(const Engine& engine, bool storage) {
  if (storage) {
    std::fprintf(stderr, "note: %s\n", engine.memory().CacheChoice().c_str());
    const DeviceInUse& in_use = engine.devices().front();
    std::fprintf(stderr, "note: %s: %s\n", in_use.device->name().c_str(), in_use.choice.c_str());
    for (const std::string& note : in_use.device->Report().notes) {
      std::fprintf(stderr, "note: %s\n", note.c_str());
    }
  }
  if (engine.num_threads() < engine.num_threads_wanted()) {
    std::fprintf(stderr, "note: the system gives only %d of %d threads\n", engine.num_threads(),
                 engine.num_threads_wanted());
  }
  if (engine.prefetch_refused()) {
    std::fprintf(stderr,
                 "note: --prefetch on has no slots here: the cache is too small, or cut up by "
                 "--ecap\n");
  }
  if (engine.memory().cache_below_token) {
    std::fprintf(
        stderr,
        "note: the expert cache holds %llu records, fewer than one token uses; every token "
        "will wait for storage. More memory (--cache-gb) helps most.\n",
        static_cast<unsigned long long>(engine.memory().num_slots));
  }
}

void PrintLateNotes(const Engine& engine) {
  for (const DeviceInUse& in_use : engine.devices()) {
    const DeviceReport report = in_use.device->Report();
    if (report.num_direct_failures == 0) continue;
    std::fprintf(
        stderr, "note: %s: %llu unbuffered reads failed and were repeated through the page cache\n",
        in_use.device->name().c_str(), static_cast<unsigned long long>(report.num_direct_failures));
  }
}

std::string PreloadText(const ExpertCache& experts) {
  if (experts.preload_done() == experts.preload_total()) return {};
  return fmt::format("{} of {} often used experts loaded", experts.preload_done(),
                     experts.preload_total());
}

void SaveUseCounters(const Engine& engine) {
  const Status status = engine.SaveUseCounters();
  if (status.ok()) return;
  std::fprintf(stderr, "note: the next run will not start warm: %s\n", status.message().c_str());
}

std::string StatsTable(const RunStats& stats, const Engine& engine) {
  std::string table = PhaseTable("prompt", stats.prompt) + PhaseTable("decode", stats.decode);
  const uint64_t fallbacks = stats.prompt.cache.fallbacks + stats.decode.cache.fallbacks;
  if (fallbacks > 0)
    table += fmt::format("        {} reads fell back to another source\n", fallbacks);
  const CacheStats cache = engine.experts().stats();
  if (cache.preloaded > 0) {
    table +=
        fmt::format("        {} experts of earlier runs loaded at the start\n", cache.preloaded);
  }
  if (cache.prefetched > 0) {
    StepStats step = stats.prompt.step;
    step.foreseeable += stats.decode.step.foreseeable;
    step.foreseen += stats.decode.step.foreseen;
    table += fmt::format(
        "        {} experts read ahead, {} of them used, {} read in vain; {:.1f} % were foreseen\n",
        cache.prefetched, cache.prefetch_used, FormatBytes(cache.prefetch_wasted_bytes),
        100 * Recall(step));
  }
  if (engine.cache_bytes_given_back() > 0) {
    table += fmt::format("        {} of the cache given back as the memory limit came down\n",
                         FormatMemory(engine.cache_bytes_given_back()));
  }
  table += StorageTable(engine);
  const SlotArena& arena = engine.experts().arena();
  table += fmt::format(
      "memory  {}; {:.0f} % of the cache in huge pages; peak resident {}; {} threads\n",
      engine.memory().Breakdown(),
      100.0 * static_cast<double>(arena.HugeBytes()) / static_cast<double>(arena.bytes()),
      FormatMemory(PeakResidentBytes()), engine.num_threads());
  return table;
}

Json PhaseJson(const PhaseStats& phase) {
  return {{"tokens", phase.tokens},
          {"seconds", Seconds(phase.duration)},
          {"tokens_per_second", phase.tokens_per_second()},
          {"attention_seconds", Seconds(phase.step.attention)},
          {"moe_seconds", Seconds(phase.step.mlp)},
          {"storage_wait_seconds", Seconds(phase.step.storage_wait)},
          {"hidden_read_seconds", Seconds(HiddenReading(phase))},
          {"head_seconds", Seconds(phase.step.head)},
          {"hits", phase.cache.hits},
          {"misses", phase.cache.misses},
          {"reads", phase.cache.reads},
          {"read_bytes", phase.cache.bytes},
          {"read_gb_per_s", GigabytesPerSecond(phase)},
          {"waves", phase.cache.waves},
          {"failed_reads", phase.cache.failed_reads},
          {"timeouts", phase.cache.timeouts},
          {"fallbacks", phase.cache.fallbacks},
          {"preloaded", phase.cache.preloaded},
          {"prefetched", phase.cache.prefetched},
          {"prefetch_used", phase.cache.prefetch_used},
          {"prefetch_wasted_bytes", phase.cache.prefetch_wasted_bytes},
          {"prefetch_recall", Recall(phase.step)}};
}

Json StatsJson(const RunStats& stats, const Engine& engine) {
  const MemoryPlan& memory = engine.memory();
  return {{"prompt", PhaseJson(stats.prompt)},
          {"decode", PhaseJson(stats.decode)},
          {"threads", engine.num_threads()},
          {"storage", StorageJson(engine)},
          {"memory",
           {{"context", memory.context},
            {"prefill_span", memory.prefill_span},
            {"slots", memory.num_slots},
            {"prefetch_slots", memory.prefetch_slots},
            {"reserve_bytes", memory.reserve_bytes},
            {"cache_choice", memory.CacheChoice()},
            {"dense_bytes", memory.dense_bytes},
            {"working_bytes", memory.working_bytes},
            {"kv_bytes", memory.kv_bytes},
            {"cache_bytes", memory.cache_bytes},
            {"cache_huge_bytes", engine.experts().arena().HugeBytes()},
            {"cache_bytes_given_back", engine.cache_bytes_given_back()},
            {"peak_resident_bytes", PeakResidentBytes()}}}};
}

}  // namespace picchio
