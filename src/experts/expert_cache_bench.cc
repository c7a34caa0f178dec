// What the cache itself costs: time and allocations per expert asked for, by policy, over a source
// that completes at once. 48 layers of 128 experts, 8 of each at a time, of which all are held, or
// a quarter of the model.
#include "experts/expert_cache.h"

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "experts/null_expert_source.h"

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// NOLINTBEGIN(misc-definitions-in-headers)
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
// NOLINTEND(misc-definitions-in-headers)

namespace picchio {
namespace {

constexpr int kLayers = 48;
constexpr int kExperts = 128;
constexpr size_t kTopK = 8;

// Experts of many passes, some more popular than others.
std::vector<std::vector<int32_t>> MakeLists() {
  std::mt19937 random(1);
  std::vector<std::vector<int32_t>> lists;
  for (int i = 0; i < 200 * kLayers; ++i) {
    std::vector<int32_t> list;
    while (list.size() < kTopK) {
      const auto a = static_cast<int32_t>(random() % kExperts);
      const auto b = static_cast<int32_t>(random() % kExperts);
      const int32_t expert = (std::min(a, b) + 37 * (i % kLayers)) % kExperts;
      if (std::ranges::find(list, expert) == list.end()) list.push_back(expert);
    }
    lists.push_back(std::move(list));
  }
  return lists;
}

void Fetch(benchmark::State& state) {
  const CachePolicy policy = kCachePolicies[static_cast<size_t>(state.range(0))];
  const auto slots = static_cast<size_t>(kLayers * kExperts * state.range(1) / 100);
  auto layout = ExpertRecordLayout::Make(PayloadKind::kInt4, RecordVersion::kV2, 64, 16, false);
  auto cache = ExpertCache::Create(
      std::make_unique<NullExpertSource>(*layout, NullExpertSource::Fill::kNothing),
      {.num_slots = slots, .policy = policy});
  if (!cache.has_value()) return state.SkipWithError(cache.error().message().c_str());
  const auto lists = MakeLists();
  size_t next = 0;
  const auto pass = [&] {
    for (int layer = 0; layer < kLayers; ++layer) {
      ExpertCache::Fetch fetch = (*cache)->Begin(layer, lists[next]);
      next = (next + 1) % lists.size();
      for (;;) {
        const auto ready = fetch.Next();
        if (!ready.has_value() || ready->empty()) break;
        benchmark::DoNotOptimize(ready->data());
      }
    }
  };
  for (int i = 0; i < 200; ++i) pass();
  const uint64_t before = allocations;
  const CacheStats stats = (*cache)->stats();
  for (auto _ : state) pass();
  const auto experts = static_cast<double>(state.iterations()) * kLayers * kTopK;
  state.SetLabel(std::string(CachePolicyName(policy)));
  state.counters["hits"] = static_cast<double>((*cache)->stats().hits - stats.hits) / experts;
  state.counters["allocations"] = static_cast<double>(allocations - before) / experts;
  state.counters["per_expert"] =
      benchmark::Counter(experts, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Fetch)->ArgsProduct({{0, 1, 2, 3, 4}, {100, 25}})->ArgNames({"policy", "percent"});

}  // namespace
}  // namespace picchio

BENCHMARK_MAIN();
