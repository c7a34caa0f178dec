// What the source does while hits are computed.
#include <random>

#include "experts/expert_cache_test_support.h"

namespace picchio {
namespace {

// Time as a source sees it: a tick is what computing with one record takes.
struct SourceClock {
  int ticks_per_read = 2;  // One read after the other.
  size_t expected = 0;     // Reads that will come; once all have, it may be idle.
  int idle = 0;            // Ticks without a read, before that.
  size_t submitted = 0;
  size_t landed = 0;
  int progress = 0;  // Of the read that is on its way, in ticks.

  void Tick() {
    if (landed == submitted) {
      if (submitted < expected) ++idle;
    } else if (++progress == ticks_per_read) {
      ++landed;
      progress = 0;
    }
  }
};

// Takes `room` reads at a time; they land as the clock says. While it is waited for, time passes.
class ClockedSource final : public ExpertSource {
 public:
  ClockedSource(size_t room, SourceClock* clock)
      : inner_(TestMemorySource(TestLayout(), 0, 1, 64, room)), clock_(clock) {}

  const std::string& name() const override { return inner_->name(); }
  const ExpertRecordLayout& layout() const override { return inner_->layout(); }
  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  size_t Submit(std::span<const ReadRequest> requests) override {
    const size_t accepted = inner_->Submit(requests);
    clock_->submitted += accepted;
    return accepted;
  }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds timeout) override {
    while (timeout.count() > 0 && reaped_ == clock_->landed && reaped_ < clock_->submitted) {
      clock_->Tick();
    }
    const size_t count =
        inner_->Reap(out.first(std::min(out.size(), clock_->landed - reaped_)), timeout);
    reaped_ += count;
    return count;
  }
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Drain() override { inner_->Drain(); }

 private:
  const std::unique_ptr<ExpertSource> inner_;
  SourceClock* const clock_;
  size_t reaped_ = 0;
};

std::vector<int32_t> Experts(int32_t begin, int32_t end) {
  std::vector<int32_t> experts;
  for (int32_t expert = begin; expert < end; ++expert) experts.push_back(expert);
  return experts;
}

// 40 hits and 20 misses, which can all be read meanwhile if the source always has one to read:
// whether it takes few at a time, or there are slots for few until hits are done with.
TEST(ExpertCacheBatchesTest, TheSourceIsKeptBusyWhileHitsAreComputed) {
  struct Case {
    size_t room;
    size_t num_slots;
  };
  for (const Case& c : {Case{4, 64}, Case{64, 48}, Case{4, 44}}) {
    SourceClock clock;
    const auto cache =
        MakeCache(c.num_slots, std::make_unique<ClockedSource>(c.room, &clock), CachePolicy::kLru);
    FetchAll(*cache, 0, Experts(0, 40));
    ASSERT_EQ(cache->stats().reads, 40u);
    clock = {.expected = 60, .submitted = clock.submitted, .landed = clock.landed};
    const auto waited = cache->stats().wait;

    const std::vector<int32_t> experts = Experts(0, 60);
    std::vector<bool> seen(experts.size());
    size_t hits_left = 40;
    ExpertCache::Fetch fetch = cache->Begin(0, experts);
    for (;;) {
      const auto ready = fetch.Next();
      ASSERT_OK(ready);
      if (ready->empty()) break;
      for (const ExpertCache::Ready& r : *ready) {
        const auto index = static_cast<size_t>(r.index);
        ASSERT_FALSE(seen[index]);
        seen[index] = true;
        EXPECT_TRUE(IsRecordOf(r.record, {0, experts[index]}));
        hits_left -= index < 40 ? 1 : 0;
        clock.Tick();
      }
    }
    EXPECT_EQ(hits_left, 0u);
    EXPECT_EQ(cache->stats().hits, 40u);
    EXPECT_EQ(clock.submitted, 60u);
    EXPECT_EQ(clock.idle, 0) << "room for " << c.room << ", " << c.num_slots << " slots";
    EXPECT_EQ(cache->stats().wait, waited) << "all of it could be read beside the hits";
  }
}

// Nothing is missing, so nothing is gained by cutting the list up.
TEST(ExpertCacheBatchesTest, WhereAllIsThereItComesAtOnce) {
  SourceClock clock;
  const auto cache = MakeCache(64, std::make_unique<ClockedSource>(64, &clock));
  FetchAll(*cache, 0, Experts(0, 40));
  ExpertCache::Fetch fetch = cache->Begin(0, Experts(0, 40));
  const auto ready = fetch.Next();
  ASSERT_OK(ready);
  EXPECT_EQ(ready->size(), 40u);
}

// The four least used go first, wherever they stand in the list: the misses wait for their slots.
TEST(ExpertCacheBatchesTest, HitsWhoseSlotsOthersWaitForComeFirst) {
  SourceClock clock;
  const auto cache = MakeCache(40, std::make_unique<ClockedSource>(64, &clock), CachePolicy::kLfu);
  FetchAll(*cache, 0, Experts(0, 40));
  for (int i = 0; i < 3; ++i) FetchAll(*cache, 0, Experts(0, 36));
  const size_t before = clock.submitted;
  ExpertCache::Fetch fetch = cache->Begin(0, Experts(0, 44));
  const auto ready = fetch.Next();
  ASSERT_OK(ready);
  ASSERT_GE(ready->size(), 4u);
  EXPECT_LT(ready->size(), 40u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ((*ready)[i].index, 36 + static_cast<int>(i));
  EXPECT_EQ(clock.submitted, before);
  ASSERT_OK(fetch.Next());
  EXPECT_EQ(clock.submitted, before + 4);
}

// Experts that are named several times, in lists of every length: each comes as often as it is
// named, and no slot goes to another expert while somebody computes with it.
TEST(ExpertCacheBatchesTest, ExpertsNamedTwiceInListsLongerThanTheCache) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    const auto cache = MakeCache(2 + random() % 14, Faulty(Disorder(seed), 1 + random() % 9),
                                 kCachePolicies[seed % kCachePolicies.size()]);
    for (int step = 0; step < 40; ++step) {
      std::vector<int32_t> experts(random() % 40);
      for (int32_t& expert : experts) expert = static_cast<int32_t>(random() % kNumExperts);
      const int layer = static_cast<int>(random() % kNumLayers);
      ASSERT_EQ(FetchAll(*cache, layer, experts).size(), experts.size());
    }
  }
}

}  // namespace
}  // namespace picchio
