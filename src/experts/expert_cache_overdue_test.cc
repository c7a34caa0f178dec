// Sources that stop answering: the list gets its records from elsewhere or fails in words, and no
// memory that a device may still write to is used for anything else.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "experts/expert_cache_test_support.h"
#include "experts/tiered_expert_source.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::chrono::milliseconds kPatience{20};

const FaultPlan kNever{.delay_rate = 1, .delay = std::chrono::hours(1)};

// Reads from `source` and hands out nothing while it is shut. Fails the test where a slot is
// submitted that it has not given back.
class GatedSource final : public ExpertSource {
 public:
  struct Gate {
    bool open = false;
    std::set<const std::byte*> slots{};  // Submitted and not handed out.
    uint64_t submitted = 0;
  };

  GatedSource(std::unique_ptr<ExpertSource> source, Gate* gate)
      : source_(std::move(source)), gate_(gate) {}

  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return source_->layout(); }
  size_t max_in_flight() const override { return source_->max_in_flight(); }
  size_t Submit(std::span<const ReadRequest> requests) override {
    const size_t accepted = source_->Submit(requests);
    for (const ReadRequest& request : requests.first(accepted)) {
      EXPECT_TRUE(gate_->slots.insert(request.slot.data).second) << "used while it is not free";
      slot_of_tag_[request.tag] = request.slot.data;
      ++gate_->submitted;
    }
    return accepted;
  }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override {
    if (!gate_->open) {
      std::this_thread::sleep_for(timeout);
      return 0;
    }
    const size_t count = source_->Reap(out, timeout);
    for (const Completion& done : out.first(count)) gate_->slots.erase(slot_of_tag_.at(done.tag));
    return count;
  }
  void Cancel(uint64_t /*tag*/) override {}
  void Drain() override { source_->Drain(); }

 private:
  const std::string name_ = "gate";
  const std::unique_ptr<ExpertSource> source_;
  Gate* const gate_;
  std::map<uint64_t, const std::byte*> slot_of_tag_;
};

std::unique_ptr<ExpertCache> ImpatientCache(size_t num_slots,
                                            std::unique_ptr<ExpertSource> source) {
  return ExpertCache::Create(
             std::move(source),
             {.num_slots = num_slots, .chunk_bytes = 8192, .read_timeout = kPatience})
      .value();
}

std::unique_ptr<TieredExpertSource> WithFallback(std::unique_ptr<ExpertSource> first,
                                                 std::vector<std::string>* notices = nullptr) {
  std::vector<std::unique_ptr<ExpertSource>> tiers;
  tiers.push_back(std::move(first));
  tiers.push_back(MemorySource());
  return TieredExpertSource::Create(std::move(tiers),
                                    [notices](std::string_view text) {
                                      if (notices != nullptr) notices->emplace_back(text);
                                    })
      .value();
}

TEST(ExpertCacheOverdueTest, TheNextTierServesWhatTheFirstDoesNotAnswer) {
  std::vector<std::string> notices;
  auto source = WithFallback(Faulty(kNever), &notices);
  const TieredExpertSource& tiers = *source;
  const auto cache = ImpatientCache(9, std::move(source));
  EXPECT_THAT(FetchAll(*cache, 1, {3, 4, 5}), SizeIs(3));
  EXPECT_EQ(cache->stats().timeouts, 3u);
  EXPECT_EQ(cache->stats().fallbacks, 3u);
  EXPECT_EQ(tiers.tier_stats()[0].given_up, 3u);
  EXPECT_THAT(notices, ElementsAre(HasSubstr("memory does not answer; reading from memory")));
  // It is not asked again as long as it owes an answer, so nobody waits for it again.
  EXPECT_THAT(FetchAll(*cache, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), SizeIs(10));
  EXPECT_THAT(FetchAll(*cache, 1, {5, 4, 3}), SizeIs(3));
  EXPECT_EQ(cache->stats().timeouts, 3u);
  EXPECT_EQ(notices.size(), 1u);
}

// One record at a time, each after most of the patience.
class SlowSource final : public ExpertSource {
 public:
  explicit SlowSource(std::unique_ptr<ExpertSource> source) : source_(std::move(source)) {}

  const std::string& name() const override { return source_->name(); }
  const ExpertRecordLayout& layout() const override { return source_->layout(); }
  size_t max_in_flight() const override { return source_->max_in_flight(); }
  size_t Submit(std::span<const ReadRequest> requests) override {
    next_ = std::max(next_, std::chrono::steady_clock::now() + kPatience * 2 / 3);
    return source_->Submit(requests);
  }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override {
    const auto now = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, next_ - now));
    if (std::chrono::steady_clock::now() < next_) return 0;
    next_ = std::chrono::steady_clock::now() + kPatience * 2 / 3;
    return source_->Reap(out.first(1), timeout);
  }
  void Cancel(uint64_t tag) override { source_->Cancel(tag); }
  void Drain() override { source_->Drain(); }

 private:
  const std::unique_ptr<ExpertSource> source_;
  std::chrono::steady_clock::time_point next_{};
};

TEST(ExpertCacheOverdueTest, PatienceIsForTheNextRecordNotForAllOfThem) {
  for (const bool overlap : {true, false}) {
    const auto cache =
        ExpertCache::Create(std::make_unique<SlowSource>(MemorySource()),
                            {.num_slots = 9, .overlap = overlap, .read_timeout = 5 * kPatience})
            .value();
    // Of the patience each takes two fifteenths, so that a busy machine does not lose it.
    EXPECT_THAT(FetchAll(*cache, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8}), SizeIs(9)) << overlap;
    EXPECT_EQ(cache->stats().timeouts, 0u) << overlap;
  }
}

TEST(ExpertCacheOverdueTest, WithoutAnotherTierItIsAnErrorThatNamesExpertAndTime) {
  const auto cache = ImpatientCache(6, Faulty(kNever));
  {
    ExpertCache::Fetch fetch = cache->Begin(1, std::vector<int32_t>{3, 4});
    EXPECT_THAT(fetch.Next(), Fails(Code::kUnavailable,
                                    "layer 1 expert 3: memory has not answered for 0.02 seconds"));
  }
  {
    ExpertCache::Fetch fetch = cache->Begin(0, std::vector<int32_t>{7});
    EXPECT_THAT(fetch.Next(), Fails(Code::kUnavailable, "layer 0 expert 7: memory has not"));
  }
  EXPECT_EQ(cache->stats().timeouts, 3u);
  // The end of the cache waits for nothing, and what the device may write to stays.
}

TEST(ExpertCacheOverdueTest, WhereEverySlotIsOwedTheListFailsInWords) {
  const auto cache = ImpatientCache(2, WithFallback(Faulty(kNever)));
  ExpertCache::Fetch fetch = cache->Begin(1, std::vector<int32_t>{3, 4, 5});
  EXPECT_THAT(fetch.Next(),
              Fails(Code::kUnavailable, "does not answer, and 2 of the cache's 2 slots wait"));
}

TEST(ExpertCacheOverdueTest, ASlotIsUsedAgainOnlyAfterItsReadHasCompleted) {
  GatedSource::Gate gate;
  const auto cache =
      ImpatientCache(6, WithFallback(std::make_unique<GatedSource>(MemorySource(), &gate)));
  FetchAll(*cache, 0, {0, 1});
  EXPECT_EQ(gate.slots.size(), 2u);
  for (int32_t expert = 0; expert < 16; ++expert) {
    // Every slot that is there goes round several times.
    EXPECT_THAT(FetchAll(*cache, 1, {expert, (expert + 7) % 16}), SizeIs(2));
  }
  EXPECT_EQ(gate.submitted, 2u);
  EXPECT_EQ(cache->stats().timeouts, 2u);
  EXPECT_EQ(cache->ShrinkTo(2), 6u) << "memory that may be written to is not given back";
  gate.open = true;
  FetchAll(*cache, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(gate.slots.empty());
  const uint64_t before = gate.submitted;
  FetchAll(*cache, 0, {9, 10, 11, 12, 13, 14});
  EXPECT_EQ(gate.submitted, before + 6) << "the first tier is asked again, all slots are there";
  EXPECT_EQ(cache->ShrinkTo(2), 2u);
}

TEST(ExpertCacheOverdueTest, PreloadsThatHangDoNotKeepALaterDemand) {
  GatedSource::Gate gate;
  const auto cache =
      ImpatientCache(10, WithFallback(std::make_unique<GatedSource>(MemorySource(), &gate)));
  std::vector<CacheDirectory::Uses> uses;
  for (int i = 0; i < 6; ++i) uses.push_back({{2, i}, 50.0 - i});
  cache->Preload(uses);
  // One of those on their way, one that is not.
  EXPECT_THAT(FetchAll(*cache, 2, {0, 9}), SizeIs(2));
  EXPECT_THAT(FetchAll(*cache, 2, {1, 2, 3}), SizeIs(3));
  gate.open = true;
  for (int i = 0; i < 4; ++i) FetchAll(*cache, 2, {0, 1, 2, 3});
  EXPECT_EQ(cache->preload_done(), cache->preload_total());
}

// The first tier never answers again; nobody waits for ever for what it was to load.
TEST(ExpertCacheOverdueTest, PreloadsThatHangForGoodCountAsDone) {
  GatedSource::Gate gate;
  const auto cache =
      ImpatientCache(10, WithFallback(std::make_unique<GatedSource>(MemorySource(), &gate)));
  std::vector<CacheDirectory::Uses> uses;
  for (int i = 0; i < 6; ++i) uses.push_back({{2, i}, 50.0 - i});
  cache->Preload(uses);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(FetchAll(*cache, 1, {7, 8}), SizeIs(2));
  EXPECT_EQ(cache->preload_done(), cache->preload_total());
  // What was to be loaded is read when it is asked for.
  EXPECT_THAT(FetchAll(*cache, 2, {0, 1, 2, 3, 4, 5}), SizeIs(6));
}

TEST(ExpertCacheOverdueTest, RandomSilenceNeverHandsOutAnythingWrong) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    FaultPlan plan = Disorder(seed);
    plan.delay_rate = 0.02;
    plan.delay = std::chrono::hours(1);
    const auto cache = ExpertCache::Create(WithFallback(Faulty(plan, 4)),
                                           {.num_slots = 14,
                                            .chunk_bytes = 8192,
                                            .prefetch_slots = seed % 2 == 0 ? 0u : 3u,
                                            .experts_per_token = 2,
                                            .read_timeout = std::chrono::milliseconds(5)})
                           .value();
    for (int step = 0; step < 100; ++step) {
      const int layer = static_cast<int>(random() % kNumLayers);
      cache->Prefetch((layer + 1) % kNumLayers, RandomList(random, 2));
      const std::vector<int32_t> experts = RandomList(random, random() % (kNumExperts + 1));
      ASSERT_EQ(FetchAll(*cache, layer, experts).size(), experts.size());
    }
    EXPECT_GT(cache->stats().timeouts, 0u);
  }
}

}  // namespace
}  // namespace picchio
