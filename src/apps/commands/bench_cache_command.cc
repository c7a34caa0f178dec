#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands/bench_commands.h"
#include "apps/commands/flag_checks.h"
#include "apps/commands/print_json.h"
#include "apps/progress.h"
#include "base/human.h"
#include "base/json.h"
#include "experts/cache_simulator.h"

namespace picchio {
namespace {

struct BenchCacheFlags {
  std::string trace;
  std::string slots;
  std::string percent = "3,6,12,25,50,75,90";
  bool json = false;
};

struct Capacity {
  size_t slots = 0;
  double percent = 0;  // Of the model's records.
};

std::vector<Capacity> CapacitiesOf(const BenchCacheFlags& flags, const TraceHeader& header) {
  const auto records = static_cast<double>(header.num_records);
  std::vector<Capacity> capacities;
  for (const std::string& slots : WordsOf(flags.slots)) {
    const size_t count = std::strtoull(slots.c_str(), nullptr, 10);
    capacities.push_back({count, 100 * static_cast<double>(count) / records});
  }
  if (!capacities.empty()) return capacities;
  for (const std::string& text : WordsOf(flags.percent)) {
    const double percent = std::strtod(text.c_str(), nullptr);
    const auto slots = static_cast<size_t>(std::lround(records * percent / 100));
    capacities.push_back({std::max<size_t>(slots, 2), percent});
  }
  return capacities;
}

struct Row {
  Capacity capacity;
  std::vector<uint64_t> hits;  // By kCachePolicies.
  uint64_t optimum = 0;
};

void PrintTable(const AccessTrace& trace, const std::vector<Row>& rows) {
  const TraceHeader& header = trace.header;
  const auto demands = static_cast<double>(trace.num_demands());
  std::printf(
      "%llu passes through %llu layers of %llu experts, %llu at a time: %llu demands on %llu "
      "records of %s\n\n",
      static_cast<unsigned long long>(trace.num_passes()),
      static_cast<unsigned long long>(header.num_layers),
      static_cast<unsigned long long>(header.num_experts),
      static_cast<unsigned long long>(header.experts_per_token),
      static_cast<unsigned long long>(trace.num_demands()),
      static_cast<unsigned long long>(header.num_records),
      FormatBytes(header.record_bytes).c_str());
  std::printf("hits in %%\n%8s %9s", "slots", "capacity");
  for (const CachePolicy policy : kCachePolicies) {
    std::printf(" %7s", std::string(CachePolicyName(policy)).c_str());
  }
  std::printf(" %8s\n", "optimum");
  for (const Row& row : rows) {
    std::printf("%8zu %7.1f %%", row.capacity.slots, row.capacity.percent);
    for (const uint64_t hits : row.hits) {
      std::printf(" %7.2f", 100 * static_cast<double>(hits) / demands);
    }
    std::printf(" %8.2f\n", 100 * static_cast<double>(row.optimum) / demands);
  }
}

Json ReportJson(const AccessTrace& trace, const std::vector<Row>& rows) {
  Json capacities = Json::array();
  for (const Row& row : rows) {
    Json hits = Json::object();
    for (size_t i = 0; i < kCachePolicies.size(); ++i) {
      hits[std::string(CachePolicyName(kCachePolicies[i]))] = row.hits[i];
    }
    capacities.push_back({{"slots", row.capacity.slots},
                          {"percent", row.capacity.percent},
                          {"hits", std::move(hits)},
                          {"optimum", row.optimum}});
  }
  return {{"passes", trace.num_passes()},
          {"lists", trace.lists.size()},
          {"demands", trace.num_demands()},
          {"records", trace.header.num_records},
          {"record_bytes", trace.header.record_bytes},
          {"default_policy", std::string(CachePolicyName(kDefaultCachePolicy))},
          {"capacities", std::move(capacities)}};
}

Status Run(const BenchCacheFlags& flags) {
  PICCHIO_ASSIGN_OR_RETURN(const AccessTrace trace, LoadTrace(flags.trace));
  if (trace.num_demands() == 0) {
    return Error(Code::kInvalidArgument, "{} holds no demands: nothing to simulate", flags.trace);
  }
  const std::vector<Capacity> capacities = CapacitiesOf(flags, trace.header);
  std::vector<Row> rows;
  Progress progress("simulating", capacities.size() * (kCachePolicies.size() + 1), "caches");
  for (const Capacity& capacity : capacities) {
    Row row{.capacity = capacity, .hits = {}};
    for (const CachePolicy policy : kCachePolicies) {
      row.hits.push_back(SimulateHits(trace, {.num_positions = capacity.slots, .policy = policy}));
      progress.Add(1);
    }
    row.optimum = OptimalHits(trace, capacity.slots);
    progress.Add(1);
    rows.push_back(std::move(row));
  }
  if (flags.json) {
    PrintJson(ReportJson(trace, rows));
  } else {
    PrintTable(trace, rows);
  }
  return Status::Ok();
}

}  // namespace

void AddBenchCacheCommand(Command& bench) {
  auto flags = std::make_shared<BenchCacheFlags>();
  Command command =
      bench.Sub("cache", "Hits of every cache policy in a recorded run, beside the best possible");
  command.Option("TRACE", flags->trace, "What run --trace or perplexity --trace wrote")
      .Required()
      .Check(NotEmpty());
  Flag slots = command.Option("--slots", flags->slots, "Capacities in records, as 100,200,400")
                   .Check(EachOf(WholeNumberFrom(1, int64_t{1} << 30)));
  command.Option("--percent", flags->percent, "Capacities in percent of the model's records")
      .Check(EachOf(NumberFrom(1e-3, 100)))
      .Excludes(slots)
      .ShowDefault();
  command.Switch("--json", flags->json, "Report as JSON: hits as counts");
  command.Footer(
      "Each capacity is played through by the code that decides in a run (--cache-policy), from "
      "an\n"
      "empty cache on; the optimum is Belady's, which knows the future.\n\n"
      "Examples:\n"
      "  picchio run ~/models/qwen3-30b -p \"Once upon a time\" -n 200 --trace tale.trace\n"
      "  picchio bench cache tale.trace\n"
      "  picchio bench cache tale.trace --slots 500,1000,2000 --json");
  command.Run([flags] { return Run(*flags); });
}

}  // namespace picchio
