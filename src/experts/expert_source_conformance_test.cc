// What expert_source.h promises, held against every source. A new source is added at the end.
//
// Each holds the experts [0, kStoreExperts) of layers [kStoreFirstLayer, kStoreEndLayer), with the
// bytes of TestRecord unless it says otherwise.

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "base/aligned_buffer.h"
#include "base/units.h"
#include "experts/container_test_support.h"
#include "experts/expert_source.h"
#include "experts/faulty_expert_source.h"
#include "experts/memory_expert_source.h"
#include "experts/null_expert_source.h"
#include "experts/packed_expert_source.h"
#include "experts/records_test_support.h"
#include "experts/safetensors_expert_source.h"
#include "experts/store_test_support.h"
#include "experts/tiered_expert_source.h"
#include "format/tensor_directory.h"
#include "io/bounce_device.h"
#include "io/buffered_device.h"
#include "io/direct_device.h"
#include "io/faulty_device.h"
#include "io/uring_device.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::byte kPoison{0xa7};

struct SourceCase {
  std::string name;
  std::function<std::unique_ptr<ExpertSource>()> open;
  bool holds_everything = false;  // No expert is unknown to it.
  bool zeros = false;             // Its records are zeros.
};

// A slot with guard bytes before and behind it.
class GuardedSlot {
 public:
  explicit GuardedSlot(uint64_t bytes)
      : memory_(AlignedBuffer::Allocate(bytes + 2 * kGuardBytes, kGuardBytes).value()) {
    Poison();
  }

  void Poison() { std::fill(memory_.bytes().begin(), memory_.bytes().end(), kPoison); }

  Slot slot() {
    return {.bytes = memory_.size() - 2 * kGuardBytes, .data = memory_.data() + kGuardBytes};
  }
  std::span<const std::byte> bytes() const {
    return memory_.bytes().subspan(kGuardBytes, memory_.size() - 2 * kGuardBytes);
  }
  bool GuardsAreWhole() const {
    return AllPoison(memory_.bytes().first(kGuardBytes)) &&
           AllPoison(memory_.bytes().last(kGuardBytes));
  }
  bool IsPoison() const { return AllPoison(memory_.bytes()); }

 private:
  static constexpr size_t kGuardBytes = 4096;

  static bool AllPoison(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPoison; });
  }

  AlignedBuffer memory_;
};

class ExpertSourceConformanceTest : public testing::TestWithParam<SourceCase> {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    source_ = GetParam().open();
    ASSERT_NE(source_, nullptr);
  }

  std::vector<std::byte> Expected(ExpertKey key) const {
    if (GetParam().zeros) return std::vector<std::byte>(source_->layout().record_bytes);
    return TestRecord(key, source_->layout());
  }

  static std::vector<ExpertKey> AllKeys() {
    std::vector<ExpertKey> keys;
    for (int layer = kStoreFirstLayer; layer < kStoreEndLayer; ++layer) {
      for (int expert = 0; expert < kStoreExperts; ++expert) keys.push_back({layer, expert});
    }
    return keys;
  }

  // One request for each key, each into a poisoned slot of its own, tagged by its position.
  std::vector<ReadRequest> RequestsFor(std::span<const ExpertKey> keys) {
    std::vector<ReadRequest> requests;
    while (slots_.size() < keys.size()) slots_.emplace_back(source_->slot_bytes());
    for (size_t i = 0; i < keys.size(); ++i) {
      slots_[i].Poison();
      requests.push_back({.key = keys[i], .slot = slots_[i].slot(), .tag = i});
    }
    return requests;
  }

  void ExpectRecord(size_t slot_idx, ExpertKey key) const {
    const std::span<const std::byte> bytes = slots_[slot_idx].bytes();
    const std::vector<std::byte> expected = Expected(key);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin())) << ToString(key);
    EXPECT_TRUE(slots_[slot_idx].GuardsAreWhole()) << ToString(key);
  }

  // Submits all, as the source takes them, and reaps until all have come. Returns them by tag.
  std::map<uint64_t, Completion> ReadAllOf(std::span<const ReadRequest> requests,
                                           size_t reap_batch = 5) {
    std::map<uint64_t, Completion> completions;
    size_t submitted = 0;
    std::vector<Completion> batch(reap_batch);
    while (completions.size() < requests.size()) {
      const size_t accepted = source_->Submit(requests.subspan(submitted));
      EXPECT_TRUE(accepted > 0 || submitted > completions.size()) << "none in flight, none taken";
      submitted += accepted;
      EXPECT_LE(submitted - completions.size(), source_->max_in_flight());
      const size_t count = source_->Reap(batch, kForever);
      EXPECT_GT(count, 0u);
      if (count == 0) break;
      for (size_t i = 0; i < count; ++i) {
        EXPECT_LT(batch[i].tag, submitted);
        EXPECT_TRUE(completions.emplace(batch[i].tag, batch[i]).second) << "completed twice";
      }
    }
    return completions;
  }

  void ExpectIdle() {
    Completion completion;
    EXPECT_EQ(source_->Reap({&completion, 1}, nanoseconds(0)), 0u);
    EXPECT_EQ(source_->Reap({&completion, 1}, kForever), 0u);
  }

  std::vector<GuardedSlot> slots_;  // Outlives the source.
  std::unique_ptr<ExpertSource> source_;
};

TEST_P(ExpertSourceConformanceTest, DescribesItself) {
  EXPECT_FALSE(source_->name().empty());
  EXPECT_GT(source_->layout().record_bytes, 0u);
  EXPECT_GE(source_->slot_bytes(), source_->layout().record_bytes);
  EXPECT_GE(source_->max_in_flight(), 1u);
  EXPECT_TRUE(source_->CanFill(MemorySpace::kHost));
  EXPECT_FALSE(source_->CanFill(MemorySpace::kGpu));
}

TEST_P(ExpertSourceConformanceTest, DeliversEveryRecordWhole) {
  const std::vector<ExpertKey> keys = AllKeys();
  for (const size_t reap_batch : {1u, 3u, 100u}) {
    for (const auto& [tag, completion] : ReadAllOf(RequestsFor(keys), reap_batch)) {
      EXPECT_OK(completion.status);
      ExpectRecord(tag, keys[tag]);
    }
  }
  ExpectIdle();
}

TEST_P(ExpertSourceConformanceTest, OneExpertMayBeReadIntoSeveralSlots) {
  const std::vector<ExpertKey> keys(5, ExpertKey{2, 3});
  for (const auto& [tag, completion] : ReadAllOf(RequestsFor(keys))) {
    EXPECT_OK(completion.status);
    ExpectRecord(tag, keys[tag]);
  }
}

TEST_P(ExpertSourceConformanceTest, TakesOnlyWhatItHasRoomFor) {
  std::vector<ExpertKey> keys;
  while (keys.size() < source_->max_in_flight() + 3) keys.push_back({2, 1});
  const std::vector<ReadRequest> requests = RequestsFor(keys);
  size_t accepted = 0;
  for (int i = 0; i < 50; ++i) accepted += source_->Submit(std::span(requests).subspan(accepted));
  EXPECT_GE(accepted, 1u);
  EXPECT_LE(accepted, source_->max_in_flight());
  EXPECT_EQ(source_->Submit({}), 0u);
  source_->Drain();
  ExpectIdle();
}

TEST_P(ExpertSourceConformanceTest, UnknownExpertsAreNotFoundByName) {
  const std::vector<ExpertKey> keys = {{2, kStoreExperts},  {2, 1},         {0, 0},
                                       {kStoreEndLayer, 0}, {-1, 3},        {1, -1},
                                       {INT32_MAX, 0},      {1, INT32_MAX}, {INT32_MIN, INT32_MIN}};
  for (const auto& [tag, completion] : ReadAllOf(RequestsFor(keys))) {
    if (tag == 1 || GetParam().holds_everything) {
      EXPECT_OK(completion.status);
      continue;
    }
    EXPECT_THAT(completion.status, Fails(Code::kNotFound, ToString(keys[tag])));
    EXPECT_TRUE(completion.status.message().starts_with(ToString(keys[tag]) + ": "))
        << completion.status.message();
    EXPECT_TRUE(slots_[tag].GuardsAreWhole());
  }
}

TEST_P(ExpertSourceConformanceTest, ReapWithoutRoomTakesNothing) {
  const std::vector<ExpertKey> keys = {{1, 0}};
  ASSERT_EQ(source_->Submit(RequestsFor(keys)), 1u);
  EXPECT_EQ(source_->Reap({}, nanoseconds(0)), 0u);
  EXPECT_EQ(source_->Reap({}, kForever), 0u);
  Completion completion;
  EXPECT_EQ(source_->Reap({&completion, 1}, kForever), 1u);
  EXPECT_OK(completion.status);
  ExpectIdle();
}

TEST_P(ExpertSourceConformanceTest, PollingArrivesToo) {
  const std::vector<ExpertKey> keys = {{3, 2}};
  ASSERT_EQ(source_->Submit(RequestsFor(keys)), 1u);
  Completion completion;
  while (source_->Reap({&completion, 1}, microseconds(10)) == 0) {
  }
  EXPECT_OK(completion.status);
  ExpectRecord(0, keys[0]);
}

TEST_P(ExpertSourceConformanceTest, CancelledReadsCompleteOnceEachWay) {
  const std::vector<ExpertKey> keys = AllKeys();
  for (int round = 0; round < 5; ++round) {
    const std::vector<ReadRequest> requests = RequestsFor(keys);
    const size_t accepted = source_->Submit(requests);
    ASSERT_GE(accepted, 1u);
    source_->Cancel(999);  // Not there.
    for (size_t i = 0; i < accepted; i += 2) source_->Cancel(i);
    source_->Cancel(0);  // Twice.
    std::set<uint64_t> seen;
    Completion batch[4];
    while (seen.size() < accepted) {
      const size_t count = source_->Reap(batch, kForever);
      ASSERT_GT(count, 0u);
      for (const Completion& completion : std::span(batch).first(count)) {
        EXPECT_TRUE(seen.insert(completion.tag).second);
        if (completion.status.ok()) {
          ExpectRecord(completion.tag, keys[completion.tag]);
        } else {
          EXPECT_THAT(completion.status,
                      Fails(Code::kCancelled, ToString(keys[completion.tag]) + ": "));
          EXPECT_EQ(completion.tag % 2, 0u) << "nobody cancelled it";
        }
      }
    }
    ExpectIdle();
  }
}

TEST_P(ExpertSourceConformanceTest, PromotedPrefetchesArrive) {
  const std::vector<ExpertKey> keys = AllKeys();
  std::vector<ReadRequest> requests = RequestsFor(keys);
  for (ReadRequest& request : requests) request.priority = ReadPriority::kPrefetch;
  const size_t accepted = source_->Submit(requests);
  source_->Promote(accepted - 1);
  source_->Promote(999);  // Not there.
  Completion completion;
  for (size_t i = 0; i < accepted; ++i) {
    ASSERT_EQ(source_->Reap({&completion, 1}, kForever), 1u);
    EXPECT_OK(completion.status);
    ExpectRecord(completion.tag, keys[completion.tag]);
  }
}

TEST_P(ExpertSourceConformanceTest, DrainGivesAllSlotsBackAndTheSourceGoesOn) {
  const std::vector<ExpertKey> keys = AllKeys();
  for (int round = 0; round < 10; ++round) {
    const std::vector<ReadRequest> requests = RequestsFor(keys);
    ASSERT_GE(source_->Submit(requests), 1u);
    if (round % 2 == 0) {
      Completion completion;
      (void)source_->Reap({&completion, 1}, nanoseconds(0));
    }
    source_->Drain();
    for (GuardedSlot& slot : slots_) slot.Poison();
    ExpectIdle();
    std::this_thread::sleep_for(microseconds(200));
    for (const GuardedSlot& slot : slots_) EXPECT_TRUE(slot.IsPoison()) << "written after Drain";
  }
  for (const auto& [tag, completion] : ReadAllOf(RequestsFor(keys))) {
    EXPECT_OK(completion.status);
    ExpectRecord(tag, keys[tag]);
  }
}

TEST_P(ExpertSourceConformanceTest, DestructionGivesAllSlotsBack) {
  const std::vector<ExpertKey> keys = AllKeys();
  for (int round = 0; round < 10; ++round) {
    ASSERT_GE(source_->Submit(RequestsFor(keys)), 1u);
    if (round % 2 == 0) {
      Completion completion;
      (void)source_->Reap({&completion, 1}, nanoseconds(0));
    }
    source_.reset();
    slots_.clear();  // A late write is a use after free.
    Open();
  }
}

TEST_P(ExpertSourceConformanceTest, ChunksComeAndGo) {
  AlignedBuffer memory =
      AlignedBuffer::Allocate(2 * RoundUp(source_->slot_bytes(), 4096), 4096).value();
  const MemoryChunk chunk{.chunk_idx = 7, .bytes = memory.size(), .data = memory.data()};
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(source_->Attach(chunk));
    const ReadRequest request{
        .key = {1, 1},
        .slot = {.chunk_idx = 7, .bytes = source_->slot_bytes(), .data = memory.data()}};
    ASSERT_EQ(source_->Submit({&request, 1}), 1u);
    Completion completion;
    ASSERT_EQ(source_->Reap({&completion, 1}, kForever), 1u);
    EXPECT_OK(completion.status);
    source_->Detach(chunk);
  }
}

// Everything at once, against a model of which slot belongs to whom.
TEST_P(ExpertSourceConformanceTest, RandomUseKeepsEveryPromise) {
  std::mt19937 random(11);
  const std::vector<ExpertKey> keys = AllKeys();
  constexpr size_t kSlots = 12;
  (void)RequestsFor(std::vector<ExpertKey>(kSlots));
  std::map<uint64_t, ExpertKey> in_flight;  // By tag, which is the slot.
  std::set<uint64_t> cancelled;
  std::vector<Completion> batch(kSlots);
  for (int step = 0; step < 3000; ++step) {
    const uint64_t tag = random() % kSlots;
    switch (random() % 8) {
      case 0:
        source_->Cancel(tag);
        if (in_flight.contains(tag)) cancelled.insert(tag);
        break;
      case 1:
        source_->Promote(tag);
        break;
      case 2:
        if (random() % 20 == 0) {
          source_->Drain();
          in_flight.clear();
          cancelled.clear();
        }
        break;
      case 3:
      case 4: {
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < kSlots; ++i) {
          if (in_flight.contains(i) || random() % 2 == 0) continue;
          slots_[i].Poison();
          requests.push_back(
              {.key = keys[random() % keys.size()],
               .slot = slots_[i].slot(),
               .tag = i,
               .priority = random() % 2 == 0 ? ReadPriority::kDemand : ReadPriority::kPrefetch});
        }
        const size_t accepted = source_->Submit(requests);
        ASSERT_TRUE(accepted > 0 || requests.empty() || !in_flight.empty());
        for (const ReadRequest& request : std::span(requests).first(accepted)) {
          in_flight[request.tag] = request.key;
        }
        ASSERT_LE(in_flight.size(), source_->max_in_flight());
        break;
      }
      default: {
        const size_t room = random() % (kSlots + 1);
        const nanoseconds timeout = random() % 4 == 0 ? kForever : nanoseconds(random() % 20000);
        const size_t count = source_->Reap(std::span(batch).first(room), timeout);
        if (timeout == kForever && room > 0 && !in_flight.empty()) {
          ASSERT_GT(count, 0u);
        }
        for (const Completion& completion : std::span(batch).first(count)) {
          const auto read = in_flight.find(completion.tag);
          ASSERT_NE(read, in_flight.end()) << "completed without having been submitted";
          if (completion.status.ok()) {
            ExpectRecord(completion.tag, read->second);
          } else {
            ASSERT_EQ(completion.status.code(), Code::kCancelled);
            ASSERT_TRUE(cancelled.contains(completion.tag));
          }
          cancelled.erase(completion.tag);
          in_flight.erase(read);
        }
      }
    }
  }
}

std::unique_ptr<ExpertSource> Memory(size_t max_in_flight = 64,
                                     const ExpertRecordLayout& layout = TestLayout()) {
  return TestMemorySource(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts, max_in_flight);
}

std::unique_ptr<ExpertSource> Faulty(std::unique_ptr<ExpertSource> inner, const FaultPlan& plan) {
  return std::make_unique<FaultyExpertSource>(std::move(inner), plan);
}

template <typename... Sources>
std::unique_ptr<ExpertSource> Tiered(Sources... sources) {
  std::vector<std::unique_ptr<ExpertSource>> tiers;
  (tiers.push_back(std::move(sources)), ...);
  return TieredExpertSource::Create(std::move(tiers), nullptr).value();
}

// A model directory of this layout, made once for the whole program.
const Path& ContainerFolder(const ExpertRecordLayout& layout) {
  static std::map<std::pair<PayloadKind, RecordVersion>, std::unique_ptr<TemporaryFolder>> made;
  auto& folder = made[{layout.kind, layout.version}];
  if (folder == nullptr) {
    folder = std::make_unique<TemporaryFolder>();
    EXPECT_OK(WriteTestFiles(
        folder->path(), TestContainer(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts)));
  }
  return folder->path();
}

std::unique_ptr<ExpertSource> Safetensors(const ExpertRecordLayout& layout = TestLayout(),
                                          const BufferedDevice::Options& options = {}) {
  const Path& folder = ContainerFolder(layout);
  const std::vector<std::string> names = ListFiles(folder).value();
  std::vector<Path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  std::vector<int> layers;
  for (int layer = kStoreFirstLayer; layer < kStoreEndLayer; ++layer) layers.push_back(layer);
  return SafetensorsExpertSource::Open(TensorDirectory::OpenFiles(folder, names).value(),
                                       BufferedDevice::Open(paths, options).value(), layout, layers,
                                       kStoreExperts)
      .value();
}

// The same past the page cache, through few and small buffers.
std::unique_ptr<ExpertSource> SafetensorsBounced(const ExpertRecordLayout& layout) {
  const Path& folder = ContainerFolder(layout);
  const std::vector<std::string> names = ListFiles(folder).value();
  std::vector<Path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  std::vector<int> layers;
  for (int layer = kStoreFirstLayer; layer < kStoreEndLayer; ++layer) layers.push_back(layer);
  auto device = BounceDevice::Create(DirectDevice::Open(paths, {}).value(),
                                     {.buffer_bytes = 16_KiB, .num_buffers = 3});
  return SafetensorsExpertSource::Open(TensorDirectory::OpenFiles(folder, names).value(),
                                       std::move(device).value(), layout, layers, kStoreExperts)
      .value();
}

// A store of this layout, in blocks of this size, in memory.
std::unique_ptr<ExpertSource> Packed(const ExpertRecordLayout& layout = TestLayout(),
                                     uint32_t block_size = 4096,
                                     const BufferedDevice::Options& options = {},
                                     bool verify = false) {
  static std::map<std::tuple<PayloadKind, RecordVersion, uint32_t>, std::string> made;
  std::string& bytes = made[{layout.kind, layout.version, block_size}];
  if (bytes.empty()) {
    TestStore store = StoreOf(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts);
    store.block_size = block_size;
    bytes = store.Bytes();
  }
  std::vector<std::unique_ptr<const RandomAccessFile>> files;
  files.push_back(std::make_unique<MemoryFile>("store", std::as_bytes(std::span(bytes))));
  auto device = BufferedDevice::Create(std::move(files), options).value();
  FlatIndex index = ReadFlatIndex(*device).value();
  return PackedExpertSource::Open(std::move(device), std::move(index), {.verify_sha256 = verify})
      .value();
}

// The same in a file on a disk, opened as `open` does.
template <typename Open>
std::unique_ptr<ExpertSource> PackedFile(const ExpertRecordLayout& layout, Open&& open) {
  static const BuildTemporaryFolder folder;
  const Path path = folder / fmt::format("store-{}", static_cast<int>(layout.kind));
  if (!FileExists(path)) {
    WriteAll(path, StoreOf(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts).Bytes());
    EXPECT_OK(File::OpenForWrite(path).value().Sync());
  }
  std::unique_ptr<BlockDevice> device = open(std::span<const Path>(&path, 1));
  FlatIndex index = ReadFlatIndex(*device).value();
  return PackedExpertSource::Open(std::move(device), std::move(index), {}).value();
}

std::unique_ptr<BlockDevice> OpenDirect(std::span<const Path> paths) {
  return DirectDevice::Open(paths, {}).value();
}

// Two reads at the device, in pieces of a page.
std::unique_ptr<BlockDevice> OpenUring(std::span<const Path> paths) {
  return UringDevice::Open(paths, {.queue = {.depth = 2, .max_request_bytes = 4096}}).value();
}

std::unique_ptr<BlockDevice> OpenDisorderly(std::span<const Path> paths) {
  return std::make_unique<FaultyDevice>(OpenUring(paths), FaultPlan{.seed = 3,
                                                                    .delay_rate = 0.3,
                                                                    .delay = microseconds(50),
                                                                    .refuse_rate = 0.5,
                                                                    .shuffle = true});
}

const ExpertRecordLayout kMxfp4 = TestLayout(PayloadKind::kMxfp4, RecordVersion::kV3, true);
const ExpertRecordLayout kBf16 = TestLayout(PayloadKind::kBf16, RecordVersion::kV3, true);

const FaultPlan kDisorder = {
    .seed = 3, .delay_rate = 0.3, .delay = microseconds(50), .refuse_rate = 0.5, .shuffle = true};
const FaultPlan kHalfFails = {.seed = 5, .fail_rate = 0.5};
const FaultPlan kAllFail = {.seed = 5, .fail_rate = 1, .codes = {Code::kCorrupt}};

INSTANTIATE_TEST_SUITE_P(
    Sources, ExpertSourceConformanceTest,
    testing::Values(
        SourceCase{"Memory", [] { return Memory(); }},
        SourceCase{"MemoryOneAtATime", [] { return Memory(1); }},
        SourceCase{"MemoryV3", [] { return Memory(64, kMxfp4); }},
        SourceCase{"Safetensors", [] { return Safetensors(); }},
        SourceCase{"SafetensorsMxfp4", [] { return Safetensors(kMxfp4); }},
        SourceCase{"SafetensorsBf16OneThread",
                   [] { return Safetensors(kBf16, {.num_threads = 1}); }},
        SourceCase{"SafetensorsTightQueue",
                   [] { return Safetensors(kMxfp4, {.num_threads = 2, .max_in_flight = 3}); }},
        SourceCase{"SafetensorsOneAtATime",
                   [] { return Safetensors(kMxfp4, {.max_in_flight = 1}); }},
        SourceCase{"SafetensorsBounced", [] { return SafetensorsBounced(kMxfp4); }},
        SourceCase{"Packed", [] { return Packed(); }},
        SourceCase{"PackedVerifying", [] { return Packed(TestLayout(), 4096, {}, true); }},
        SourceCase{"PackedMxfp4LargeBlocks", [] { return Packed(kMxfp4, 16384); }},
        SourceCase{"PackedBf16Verifying", [] { return Packed(kBf16, 4096, {}, true); }},
        SourceCase{"PackedTightQueue",
                   [] { return Packed(kMxfp4, 4096, {.num_threads = 2, .max_in_flight = 3}); }},
        SourceCase{"PackedOneAtATime", [] { return Packed(kMxfp4, 4096, {.max_in_flight = 1}); }},
        SourceCase{"PackedDirect", [] { return PackedFile(TestLayout(), OpenDirect); }},
        SourceCase{"PackedUring", [] { return PackedFile(kMxfp4, OpenUring); }},
        SourceCase{"PackedDisorderlyDevice", [] { return PackedFile(kBf16, OpenDisorderly); }},
        SourceCase{"TieredPackedThenSafetensors",
                   [] { return Tiered(Faulty(Packed(), kHalfFails), Safetensors()); }},
        SourceCase{"Null",
                   [] {
                     return std::make_unique<NullExpertSource>(TestLayout(),
                                                               NullExpertSource::Fill::kZeros);
                   },
                   true, true},
        SourceCase{"FaultyWithoutFaults", [] { return Faulty(Memory(), {}); }},
        SourceCase{"FaultyDisorder", [] { return Faulty(Memory(9), kDisorder); }},
        SourceCase{"TieredOfOne", [] { return Tiered(Memory()); }},
        SourceCase{"TieredHalfFails",
                   [] { return Tiered(Faulty(Memory(), kHalfFails), Memory()); }},
        SourceCase{"TieredFirstFails",
                   [] { return Tiered(Faulty(Memory(), kAllFail), Faulty(Memory(2), kDisorder)); }},
        SourceCase{"TieredThree",
                   [] {
                     return Tiered(Faulty(Memory(9), kHalfFails),
                                   Faulty(Faulty(Memory(3), kHalfFails), kDisorder),
                                   Faulty(Memory(1), kDisorder));
                   }},
        SourceCase{"TieredMemoryHalfFailsThenSafetensors",
                   [] { return Tiered(Faulty(Memory(), kHalfFails), Safetensors()); }},
        SourceCase{"TieredPartial",
                   [] {
                     return Tiered(TestMemorySource(TestLayout(), kStoreFirstLayer,
                                                    kStoreFirstLayer + 1, kStoreExperts - 3),
                                   Memory());
                   }}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace picchio
