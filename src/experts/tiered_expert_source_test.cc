#include "experts/tiered_expert_source.h"

#include "experts/faulty_expert_source.h"
#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

using Tiers = std::vector<std::unique_ptr<ExpertSource>>;

std::unique_ptr<ExpertSource> Memory(int end_layer) {
  return TestMemorySource(TestLayout(), 0, end_layer, 4);
}

std::unique_ptr<ExpertSource> Failing(Code code) {
  return std::make_unique<FaultyExpertSource>(Memory(4),
                                              FaultPlan{.fail_rate = 1, .codes = {code}});
}

template <typename... Sources>
Tiers TiersOf(Sources... sources) {
  Tiers tiers;
  (tiers.push_back(std::move(sources)), ...);
  return tiers;
}

Completion ReadOne(ExpertSource& source, ExpertKey key) {
  std::vector<std::byte> memory(source.slot_bytes());
  const ReadRequest request{.key = key, .slot = {.bytes = memory.size(), .data = memory.data()}};
  EXPECT_EQ(source.Submit({&request, 1}), 1u);
  Completion completion;
  EXPECT_EQ(source.Reap({&completion, 1}, kForever), 1u);
  if (completion.status.ok()) {
    EXPECT_EQ(memory, TestRecord(key, source.layout()));
  }
  return completion;
}

TEST(TieredExpertSourceTest, FallsBackCountsAndSaysItOnce) {
  std::vector<std::string> notices;
  ASSERT_OK_AND_ASSIGN(const auto source, TieredExpertSource::Create(TiersOf(Memory(2), Memory(4)),
                                                                     [&](std::string_view text) {
                                                                       notices.emplace_back(text);
                                                                     }));
  EXPECT_EQ(source->name(), "memory, else memory");
  for (int layer = 0; layer < 4; ++layer) {
    const Completion completion = ReadOne(*source, {layer, 3});
    EXPECT_OK(completion.status);
    EXPECT_EQ(completion.tier, layer < 2 ? 0 : 1);
  }
  EXPECT_EQ(source->tier_stats()[0].served, 2u);
  EXPECT_EQ(source->tier_stats()[0].failed, 2u);
  EXPECT_EQ(source->tier_stats()[1].served, 2u);
  EXPECT_EQ(source->tier_stats()[1].failed, 0u);
  EXPECT_THAT(notices, testing::ElementsAre(HasSubstr("layer 2 expert 3: not in memory; reading")));
}

TEST(TieredExpertSourceTest, TheLastErrorListsWhatEachTierSaid) {
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TieredExpertSource::Create(
          TiersOf(Memory(1), Failing(Code::kCorrupt), Failing(Code::kUnavailable)), nullptr));
  const Completion completion = ReadOne(*source, {2, 1});
  EXPECT_THAT(completion.status, Fails(Code::kUnavailable,
                                       "layer 2 expert 1: no source could serve it: not in memory; "
                                       "then injected fault (corrupt); then injected fault (unav"));
  EXPECT_OK(ReadOne(*source, {0, 1}).status);
  EXPECT_EQ(source->tier_stats()[2].failed, 1u);
}

TEST(TieredExpertSourceTest, WhereNoneCanServeTheRemedyEndsTheMessage) {
  ASSERT_OK_AND_ASSIGN(const auto one, TieredExpertSource::Create(TiersOf(Failing(Code::kCorrupt)),
                                                                  nullptr, "buy a new one"));
  EXPECT_EQ(ReadOne(*one, {2, 1}).status.message(),
            "layer 2 expert 1: injected fault (corrupt); buy a new one");
  ASSERT_OK_AND_ASSIGN(const auto two,
                       TieredExpertSource::Create(TiersOf(Failing(Code::kCorrupt), Memory(1)),
                                                  nullptr, "buy a new one"));
  EXPECT_EQ(ReadOne(*two, {2, 1}).status.message(),
            "layer 2 expert 1: no source could serve it: injected fault (corrupt); then not in "
            "memory; buy a new one");
  EXPECT_OK(ReadOne(*two, {0, 1}).status);
}

TEST(TieredExpertSourceTest, ASingleTierSpeaksForItself) {
  ASSERT_OK_AND_ASSIGN(const auto source, TieredExpertSource::Create(TiersOf(Memory(1)), nullptr));
  EXPECT_EQ(ReadOne(*source, {2, 1}).status.message(), "layer 2 expert 1: not in memory");
}

TEST(TieredExpertSourceTest, ACancelledReadDoesNotFallBack) {
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TieredExpertSource::Create(TiersOf(Failing(Code::kIoError), Memory(4)), nullptr));
  std::vector<std::byte> memory(source->slot_bytes());
  const ReadRequest request{.key = {1, 1}, .slot = {.bytes = memory.size(), .data = memory.data()}};
  ASSERT_EQ(source->Submit({&request, 1}), 1u);
  source->Cancel(0);
  Completion completion;
  ASSERT_EQ(source->Reap({&completion, 1}, kForever), 1u);
  EXPECT_THAT(completion.status, Fails(Code::kCancelled, "layer 1 expert 1: "));
  EXPECT_EQ(source->tier_stats()[1].served, 0u);
}

// A source whose reads complete when the test says so.
class ManualSource final : public ExpertSource {
 public:
  const std::string& name() const override { return name_; }
  const ExpertRecordLayout& layout() const override { return layout_; }
  uint64_t slot_bytes() const override { return layout_.record_bytes + 1000; }
  bool CanFill(MemorySpace /*space*/) const override { return true; }
  size_t max_in_flight() const override { return 2; }
  Status Attach(const MemoryChunk& chunk) override {
    if (chunk.bytes > 4096) return Error(Code::kResourceExhausted, "too large to register");
    ++attached;
    return Status::Ok();
  }
  void Detach(const MemoryChunk& /*chunk*/) override { --attached; }
  size_t Submit(std::span<const ReadRequest> requests) override {
    const size_t accepted = std::min(requests.size(), 2 - pending.size());
    pending.insert(pending.end(), requests.begin(),
                   requests.begin() + static_cast<ptrdiff_t>(accepted));
    return accepted;
  }
  size_t Reap(std::span<Completion> out, std::chrono::nanoseconds /*timeout*/) override {
    if (!fail_next || pending.empty()) return 0;
    out[0] = {.tag = pending[0].tag, .status = {Code::kIoError, "the device said no", 5}};
    pending.erase(pending.begin());
    return 1;
  }
  void Cancel(uint64_t tag) override { cancelled.push_back(tag); }
  void Promote(uint64_t tag) override { promoted.push_back(tag); }
  void Drain() override { pending.clear(); }

  int attached = 0;
  bool fail_next = false;
  std::vector<ReadRequest> pending;
  std::vector<uint64_t> cancelled;
  std::vector<uint64_t> promoted;

 private:
  const std::string name_ = "manual";
  const ExpertRecordLayout layout_ = TestLayout();
};

struct TwoManualTiers {
  TwoManualTiers() {
    auto first_owned = std::make_unique<ManualSource>();
    auto second_owned = std::make_unique<ManualSource>();
    first = first_owned.get();
    second = second_owned.get();
    source = TieredExpertSource::Create(TiersOf(std::move(first_owned), std::move(second_owned)),
                                        nullptr)
                 .value();
  }
  size_t Poll() { return source->Reap(out, std::chrono::nanoseconds(0)); }

  ManualSource* first;
  ManualSource* second;
  std::unique_ptr<TieredExpertSource> source;
  std::vector<Completion> out = std::vector<Completion>(4);
};

TEST(TieredExpertSourceTest, CancelAndPromoteReachTheTierThatHoldsTheRead) {
  TwoManualTiers tiers;
  const ReadRequest request{.tag = 8, .priority = ReadPriority::kPrefetch};
  ASSERT_EQ(tiers.source->Submit({&request, 1}), 1u);
  tiers.source->Promote(8);
  EXPECT_THAT(tiers.first->promoted, testing::ElementsAre(8));
  tiers.first->fail_next = true;
  EXPECT_EQ(tiers.Poll(), 0u);
  ASSERT_EQ(tiers.second->pending.size(), 1u);
  EXPECT_EQ(tiers.second->pending[0].priority, ReadPriority::kDemand);
  tiers.source->Promote(8);
  tiers.source->Cancel(8);
  EXPECT_THAT(tiers.second->promoted, testing::ElementsAre(8));
  EXPECT_THAT(tiers.second->cancelled, testing::ElementsAre(8));
  tiers.second->fail_next = true;
  ASSERT_EQ(tiers.Poll(), 1u);
  EXPECT_THAT(tiers.out[0].status, Fails(Code::kIoError, "no source could serve it"));
  EXPECT_EQ(tiers.out[0].status.native_error(), 5);
}

TEST(TieredExpertSourceTest, ReadsWaitForRoomInTheNextTier) {
  TwoManualTiers tiers;
  tiers.first->fail_next = true;
  std::vector<ReadRequest> requests;
  for (uint64_t tag = 0; tag < 4; ++tag) requests.push_back({.tag = tag});
  ASSERT_EQ(tiers.source->Submit(std::span(requests).first(2)), 2u);
  // More than the source promised to hold is not taken, though the first tier has room again.
  EXPECT_EQ(tiers.Poll(), 0u);
  EXPECT_EQ(tiers.Poll(), 0u);
  EXPECT_EQ(tiers.second->pending.size(), 2u);
  EXPECT_EQ(tiers.source->Submit(std::span(requests).subspan(2)), 0u);
  tiers.second->fail_next = true;
  EXPECT_EQ(tiers.Poll(), 1u);
  EXPECT_EQ(tiers.source->Submit(std::span(requests).subspan(2)), 1u);
  tiers.second->fail_next = false;
  EXPECT_EQ(tiers.Poll(), 0u);
  EXPECT_EQ(tiers.second->pending.size(), 2u);
  tiers.source->Drain();
  EXPECT_TRUE(tiers.second->pending.empty());
  EXPECT_EQ(tiers.source->Reap(tiers.out, kForever), 0u);
}

TEST(TieredExpertSourceTest, AttachesToAllOrNone) {
  TwoManualTiers tiers;
  std::vector<std::byte> memory(8192);
  ASSERT_OK(tiers.source->Attach({.bytes = 4096, .data = memory.data()}));
  EXPECT_EQ(tiers.first->attached + tiers.second->attached, 2);
  tiers.source->Detach({.bytes = 4096, .data = memory.data()});
  EXPECT_EQ(tiers.first->attached + tiers.second->attached, 0);

  const auto source = TieredExpertSource::Create(
      TiersOf(Memory(1), std::make_unique<ManualSource>(), Memory(1)), nullptr);
  EXPECT_THAT((*source)->Attach({.bytes = 8192, .data = memory.data()}),
              Fails(Code::kResourceExhausted, "too large to register"));
}

TEST(TieredExpertSourceTest, IsWhatAllItsTiersCanBe) {
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TieredExpertSource::Create(TiersOf(std::make_unique<ManualSource>(), Memory(1)), nullptr));
  EXPECT_EQ(source->slot_bytes(), TestLayout().record_bytes + 1000);
  EXPECT_TRUE(source->CanFill(MemorySpace::kHost));
  EXPECT_FALSE(source->CanFill(MemorySpace::kGpu));
  EXPECT_EQ(source->max_in_flight(), 2u);
}

TEST(TieredExpertSourceTest, RefusesNothingAndMixtures) {
  EXPECT_THAT(TieredExpertSource::Create({}, nullptr), Fails(Code::kInvalidArgument, "no source"));
  EXPECT_THAT(
      TieredExpertSource::Create(
          TiersOf(Memory(1),
                  TestMemorySource(TestLayout(PayloadKind::kInt4, RecordVersion::kV3), 0, 1, 4)),
          nullptr),
      Fails(Code::kInvalidArgument, "deliver different records"));
}

}  // namespace
}  // namespace picchio
