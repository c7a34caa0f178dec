#include "experts/packed_expert_source.h"

#include <filesystem>
#include <map>

#include "base/aligned_buffer.h"
#include "experts/container_test_support.h"
#include "experts/safetensors_expert_source.h"
#include "experts/store_test_support.h"
#include "experts/tiered_expert_source.h"
#include "io/buffered_device.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TestStore FullStore(const ExpertRecordLayout& layout = TestLayout()) {
  return StoreOf(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts);
}

const ExpertRecordLayout kV3Int4 = TestLayout(PayloadKind::kInt4, RecordVersion::kV3, true);
const ExpertRecordLayout kV3Mxfp4 = TestLayout(PayloadKind::kMxfp4, RecordVersion::kV3, true);
const ExpertRecordLayout kV3Bf16 = TestLayout(PayloadKind::kBf16, RecordVersion::kV3, false);

// What a source asked of its device.
struct DeviceCalls {
  std::vector<DeviceRead> reads;
  int questions = 0;  // Of sizes, names and queues.
};

class CountingQueue final : public ReadQueue {
 public:
  CountingQueue(std::unique_ptr<ReadQueue> inner, DeviceCalls& calls)
      : inner_(std::move(inner)), calls_(calls) {}
  size_t max_in_flight() const override { return inner_->max_in_flight(); }
  size_t Submit(std::span<const DeviceRead> reads) override {
    const size_t taken = inner_->Submit(reads);
    for (const DeviceRead& read : reads.first(taken)) calls_.reads.push_back(read);
    return taken;
  }
  size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
    return inner_->Reap(out, timeout);
  }
  void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
  void Promote(uint64_t tag) override { inner_->Promote(tag); }
  void Drain() override { inner_->Drain(); }

 private:
  const std::unique_ptr<ReadQueue> inner_;
  DeviceCalls& calls_;
};

class CountingDevice final : public BlockDevice {
 public:
  CountingDevice(std::unique_ptr<BlockDevice> inner, DeviceCalls& calls, uint64_t alignment)
      : inner_(std::move(inner)), calls_(calls), alignment_(alignment) {}
  const std::string& name() const override { return ++calls_.questions, inner_->name(); }
  size_t num_files() const override { return ++calls_.questions, inner_->num_files(); }
  uint64_t file_bytes(size_t file_idx) const override {
    return ++calls_.questions, inner_->file_bytes(file_idx);
  }
  uint64_t alignment() const override { return ++calls_.questions, alignment_; }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override {
    ++calls_.questions;
    PICCHIO_ASSIGN_OR_RETURN(auto queue, inner_->OpenQueue());
    return std::unique_ptr<ReadQueue>(std::make_unique<CountingQueue>(std::move(queue), calls_));
  }

 private:
  const std::unique_ptr<BlockDevice> inner_;
  DeviceCalls& calls_;
  const uint64_t alignment_;
};

class PackedExpertSourceTest : public testing::Test {
 protected:
  Path Write(const std::string& bytes, std::string_view name = "experts.picchioflat") {
    WriteAll(folder_ / name, bytes);
    return folder_ / name;
  }

  static Result<std::unique_ptr<ExpertSource>> OpenDevice(std::unique_ptr<BlockDevice> device,
                                                          bool verify) {
    PICCHIO_ASSIGN_OR_RETURN(FlatIndex index, ReadFlatIndex(*device));
    PICCHIO_ASSIGN_OR_RETURN(
        auto source,
        PackedExpertSource::Open(std::move(device), std::move(index), {.verify_sha256 = verify}));
    return std::unique_ptr<ExpertSource>(std::move(source));
  }

  static Result<std::unique_ptr<ExpertSource>> Open(const Path& path, bool verify = false) {
    PICCHIO_ASSIGN_OR_RETURN(std::unique_ptr<BlockDevice> device,
                             BufferedDevice::Open({&path, 1}, {}));
    return OpenDevice(std::move(device), verify);
  }

  // One record; its bytes in `record` where the completion is OK.
  Completion ReadOne(ExpertSource& source, ExpertKey key, std::string* record = nullptr) {
    AlignedBuffer slot = AlignedBuffer::Allocate(source.slot_bytes(), 4096).value();
    const ReadRequest request{.key = key, .slot = {.bytes = slot.size(), .data = slot.data()}};
    EXPECT_EQ(source.Submit({&request, 1}), 1u);
    Completion completion;
    EXPECT_EQ(source.Reap({&completion, 1}, kForever), 1u);
    if (record != nullptr) {
      record->assign(reinterpret_cast<const char*>(slot.data()), source.layout().record_bytes);
    }
    return completion;
  }

  TemporaryFolder folder_;
};

TEST_F(PackedExpertSourceTest, OneReadOfThePaddedExtentAndNothingElse) {
  for (const uint32_t block_size : {4096u, 16384u}) {
    for (const ExpertRecordLayout& layout : {TestLayout(), kV3Mxfp4}) {
      TestStore store = FullStore(layout);
      store.block_size = block_size;
      const Path path = Write(store.Bytes());
      DeviceCalls calls;
      auto device = std::make_unique<CountingDevice>(BufferedDevice::Open({&path, 1}, {}).value(),
                                                     calls, block_size);
      ASSERT_OK_AND_ASSIGN(const auto source, OpenDevice(std::move(device), false));
      for (const DeviceRead& read : calls.reads) {
        EXPECT_EQ(read.offset % block_size + read.out.size() % block_size, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(read.out.data()) % block_size, 0u);
      }
      const uint64_t padded = (layout.record_bytes + block_size - 1) / block_size * block_size;
      EXPECT_EQ(source->slot_bytes(), padded);

      // All experts, in another order than the store's.
      const uint64_t first = block_size * 2;  // The index is less than a block.
      calls = {};
      std::vector<AlignedBuffer> slots;
      std::vector<ReadRequest> requests;
      std::vector<uint64_t> offsets;
      for (int i = 0; i < 21; ++i) {
        const int place = i * 8 % 21;
        slots.push_back(AlignedBuffer::Allocate(padded, block_size).value());
        requests.push_back({.key = {kStoreFirstLayer + place / 7, place % 7},
                            .slot = {.bytes = padded, .data = slots.back().data()},
                            .tag = static_cast<uint64_t>(i)});
        offsets.push_back(first + static_cast<uint64_t>(place) * padded);
      }
      ASSERT_EQ(source->Submit(requests), 21u);
      std::vector<Completion> done(21);
      for (size_t count = 0; count < 21;) {
        count += source->Reap(std::span(done).subspan(count), kForever);
      }
      EXPECT_EQ(calls.questions, 0);
      ASSERT_EQ(calls.reads.size(), 21u);
      for (size_t i = 0; i < 21; ++i) {
        EXPECT_EQ(calls.reads[i].offset, offsets[i]);
        EXPECT_EQ(calls.reads[i].out.data(), slots[i].data());
        EXPECT_EQ(calls.reads[i].out.size(), padded);
        EXPECT_OK(done[i].status);
      }
    }
  }
}

TEST_F(PackedExpertSourceTest, DeliversTheBytesOfTheContainer) {
  for (const ExpertRecordLayout& layout : {TestLayout(), kV3Int4, kV3Mxfp4, kV3Bf16}) {
    TemporaryFolder container;
    ASSERT_OK(WriteTestFiles(
        container.path(), TestContainer(layout, kStoreFirstLayer, kStoreEndLayer, kStoreExperts)));
    const std::vector<std::string> names = ListFiles(container.path()).value();
    std::vector<Path> paths;
    for (const std::string& name : names) paths.push_back(container / name);
    const std::vector<int> layers = {1, 2, 3};
    ASSERT_OK_AND_ASSIGN(
        const auto safetensors,
        SafetensorsExpertSource::Open(TensorDirectory::OpenFiles(container.path(), names).value(),
                                      BufferedDevice::Open(paths, {}).value(), layout, layers,
                                      kStoreExperts));
    ASSERT_OK_AND_ASSIGN(const auto packed, Open(Write(FullStore(layout).Bytes()), true));
    for (int layer = kStoreFirstLayer; layer < kStoreEndLayer; ++layer) {
      for (int expert = 0; expert < kStoreExperts; ++expert) {
        std::string a;
        std::string b;
        EXPECT_OK(ReadOne(*safetensors, {layer, expert}, &a).status);
        EXPECT_OK(ReadOne(*packed, {layer, expert}, &b).status);
        EXPECT_EQ(a, b);
      }
    }
  }
}

// The offset of a byte of the record of layer 2 expert 3, in stores of 4096-byte blocks.
size_t ByteOf(const ExpertRecordLayout& layout, size_t at) {
  return 2 * 4096 + (7 + 3) * ((layout.record_bytes + 4095) / 4096 * 4096) + at;
}

TEST_F(PackedExpertSourceTest, NeverDeliversADamagedRecordThatItCanKnow) {
  struct Case {
    const ExpertRecordLayout& layout;
    bool verify;
    const char* message;  // Null: passes, as the page says.
  };
  const ExpertRecordLayout v2 = TestLayout();
  const Case cases[] = {{v2, false, nullptr},
                        {v2, true, "SHA-256 "},
                        {kV3Mxfp4, false, "checksum 0x"},
                        {kV3Mxfp4, true, "checksum 0x"},
                        {kV3Int4, false, "checksum 0x"}};
  for (const Case& tested : cases) {
    const std::string whole = FullStore(tested.layout).Bytes();
    for (const size_t at : {size_t{0}, size_t{1000}, tested.layout.record_bytes - 1}) {
      std::string damaged = whole;
      char& byte = damaged[ByteOf(tested.layout, at)];
      byte = static_cast<char>(byte ^ 4);
      ASSERT_OK_AND_ASSIGN(const auto source, Open(Write(damaged), tested.verify));
      const Completion completion = ReadOne(*source, {2, 3});
      if (tested.message == nullptr) {
        EXPECT_OK(completion.status);
        continue;
      }
      EXPECT_THAT(completion.status,
                  Fails(Code::kCorrupt, std::string("layer 2 expert 3: ") + tested.message));
      EXPECT_THAT(completion.status,
                  Fails(Code::kCorrupt, fmt::format(", at byte {} of ", ByteOf(tested.layout, 0))));
      EXPECT_THAT(completion.status, Fails(Code::kCorrupt, ", expected "));
      EXPECT_OK(ReadOne(*source, {2, 2}).status);  // The others are served still.
      EXPECT_OK(ReadOne(*source, {2, 4}).status);
    }
  }
}

// Version 3's SHA-256 is looked at as well: here the CRC-32C was made to fit.
TEST_F(PackedExpertSourceTest, VerifyingLooksAtTheWholeHash) {
  TestStore store = FullStore(kV3Mxfp4);
  store.edit_index = [&](std::string& index) { index[(2 * 7 + 3) * 64 + 63] ^= 1; };
  const Path path = Write(store.Bytes());
  ASSERT_OK_AND_ASSIGN(const auto trusting, Open(path, false));
  EXPECT_OK(ReadOne(*trusting, {2, 3}).status);
  ASSERT_OK_AND_ASSIGN(const auto verifying, Open(path, true));
  EXPECT_THAT(ReadOne(*verifying, {2, 3}).status,
              Fails(Code::kCorrupt, "layer 2 expert 3: SHA-256 "));
}

TEST_F(PackedExpertSourceTest, APartialStoreSaysWhatItLacks) {
  TestStore store = FullStore();
  store.records.erase({2, 3});
  ASSERT_OK_AND_ASSIGN(const auto source, Open(Write(store.Bytes()), true));
  EXPECT_THAT(ReadOne(*source, {2, 3}).status,
              Fails(Code::kNotFound, "layer 2 expert 3: no such expert in "));
  std::string record;
  EXPECT_OK(ReadOne(*source, {2, 4}, &record).status);
  EXPECT_EQ(record, (store.records[{2, 4}]));
}

TEST_F(PackedExpertSourceTest, OpensNothingThatIsNotWhole) {
  const std::string whole = FullStore().Bytes();
  EXPECT_THAT(Open(Write("")), Fails(Code::kCorrupt, "has 0 bytes"));
  EXPECT_THAT(Open(Write(whole.substr(0, 4096))), Fails(Code::kCorrupt, "ends inside its index"));
  EXPECT_THAT(Open(Write(whole.substr(0, whole.size() - 1))), Fails(Code::kCorrupt, "cut short"));
  EXPECT_THAT(Open(Write(whole + '\0')), Fails(Code::kCorrupt, "something follows the store"));
  std::string damaged = whole;
  damaged[4096 + 7 * 24] ^= 1;
  EXPECT_THAT(Open(Write(damaged)), Fails(Code::kCorrupt, "damaged index"));
}

TEST_F(PackedExpertSourceTest, AsksForLargerBlocksWhereTheDeviceNeedsThem) {
  const Path path = Write(FullStore().Bytes());
  DeviceCalls calls;
  auto device =
      std::make_unique<CountingDevice>(BufferedDevice::Open({&path, 1}, {}).value(), calls, 16384);
  EXPECT_THAT(OpenDevice(std::move(device), false),
              Fails(Code::kUnsupported, "picchio pack with --block-size 16384"));
}

// The store changes under a source that has it open.
TEST_F(PackedExpertSourceTest, ReplacedOrUnlinkedItReadsWhatItOpened) {
  const TestStore store = FullStore(kV3Mxfp4);
  const Path path = Write(store.Bytes());
  ASSERT_OK_AND_ASSIGN(const auto source, Open(path));
  std::filesystem::rename(Write(std::string(200'000, 'x'), "other"), path);
  std::string record;
  EXPECT_OK(ReadOne(*source, {1, 0}, &record).status);
  EXPECT_EQ(record, (store.records.at({1, 0})));
  ASSERT_OK_AND_ASSIGN(const auto second, Open(Write(store.Bytes(), "second")));
  std::filesystem::remove(folder_ / "second");
  EXPECT_OK(ReadOne(*second, {3, 6}, &record).status);
  EXPECT_EQ(record, (store.records.at({3, 6})));
}

TEST_F(PackedExpertSourceTest, TruncatedItFailsAndOverwrittenItKnows) {
  const Path path = Write(FullStore(kV3Mxfp4).Bytes());
  ASSERT_OK_AND_ASSIGN(const auto source, Open(path));
  std::filesystem::resize_file(path, ByteOf(kV3Mxfp4, 100));
  EXPECT_THAT(ReadOne(*source, {2, 3}).status, Fails(Code::kIoError, "layer 2 expert 3: "));
  EXPECT_OK(ReadOne(*source, {2, 2}).status);
  std::filesystem::resize_file(path, ByteOf(kV3Mxfp4, 1 << 20));  // Now with a hole.
  EXPECT_THAT(ReadOne(*source, {2, 3}).status, Fails(Code::kCorrupt, "layer 2 expert 3: "));
}

}  // namespace
}  // namespace picchio
