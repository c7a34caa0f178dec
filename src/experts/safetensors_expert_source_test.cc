#include "experts/safetensors_expert_source.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "experts/container_test_support.h"
#include "io/buffered_device.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr int kFirst = 1;
constexpr int kEnd = 3;
constexpr int kPerLayer = 4;
constexpr int kMoeLayers[] = {1, 2};

class SafetensorsExpertSourceTest : public testing::Test {
 protected:
  void SetUp() override { files_ = TestContainer(layout_, kFirst, kEnd, kPerLayer); }

  void UseLayout(const ExpertRecordLayout& layout) {
    layout_ = layout;
    SetUp();
  }

  TestTensor& Tensor(const std::string& name) {
    for (auto& [file, tensors] : files_) {
      for (TestTensor& tensor : tensors) {
        if (tensor.name == name) return tensor;
      }
    }
    ADD_FAILURE() << name;
    return files_.begin()->second[0];
  }

  void Remove(const std::string& name) {
    for (auto& [file, tensors] : files_) {
      std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
    }
  }

  std::vector<std::string> FileNames() const {
    std::vector<std::string> names;
    for (const auto& [name, tensors] : files_) names.push_back(name);
    return names;
  }

  Result<std::unique_ptr<BlockDevice>> OpenDevice() const {
    std::vector<Path> paths;
    for (const std::string& name : FileNames()) paths.push_back(folder_ / name);
    PICCHIO_ASSIGN_OR_RETURN(auto device, BufferedDevice::Open(paths, {.num_threads = 2}));
    return std::unique_ptr<BlockDevice>(std::move(device));
  }

  Result<std::unique_ptr<SafetensorsExpertSource>> Open() {
    PICCHIO_RETURN_IF_ERROR(WriteTestFiles(folder_.path(), files_));
    PICCHIO_ASSIGN_OR_RETURN(const TensorDirectory directory,
                             TensorDirectory::OpenFiles(folder_.path(), FileNames()));
    PICCHIO_ASSIGN_OR_RETURN(auto device, OpenDevice());
    return SafetensorsExpertSource::Open(directory, std::move(device), layout_, kMoeLayers,
                                         kPerLayer);
  }

  TemporaryFolder folder_;
  ExpertRecordLayout layout_ = TestLayout();
  TestFiles files_;
};

Completion ReadOne(ExpertSource& source, ExpertKey key, std::vector<std::byte>& memory) {
  memory.assign(source.slot_bytes(), std::byte{0x3c});
  const ReadRequest request{.key = key, .slot = {.bytes = memory.size(), .data = memory.data()}};
  EXPECT_EQ(source.Submit({&request, 1}), 1u);
  Completion completion;
  EXPECT_EQ(source.Reap({&completion, 1}, kForever), 1u);
  return completion;
}

TEST_F(SafetensorsExpertSourceTest, JoinsEveryKindOfRecord) {
  for (const auto& [kind, version, has_biases] :
       {std::tuple(PayloadKind::kInt4, RecordVersion::kV2, false),
        std::tuple(PayloadKind::kInt4, RecordVersion::kV3, false),
        std::tuple(PayloadKind::kInt4, RecordVersion::kV3, true),
        std::tuple(PayloadKind::kMxfp4, RecordVersion::kV3, true),
        std::tuple(PayloadKind::kBf16, RecordVersion::kV3, false),
        std::tuple(PayloadKind::kBf16, RecordVersion::kV3, true)}) {
    UseLayout(TestLayout(kind, version, has_biases));
    ASSERT_OK_AND_ASSIGN(const auto source, Open());
    for (const int layer : kMoeLayers) {
      for (int expert = 0; expert < kPerLayer; ++expert) {
        std::vector<std::byte> memory;
        EXPECT_OK(ReadOne(*source, {layer, expert}, memory).status);
        EXPECT_EQ(memory, TestRecord({layer, expert}, layout_));
      }
    }
  }
}

// Counts the reads that come to a device.
class ReadCountingDevice final : public BlockDevice {
 public:
  class Queue final : public ReadQueue {
   public:
    Queue(std::unique_ptr<ReadQueue> inner, int* reads) : inner_(std::move(inner)), reads_(reads) {}
    size_t max_in_flight() const override { return inner_->max_in_flight(); }
    Status Attach(std::span<std::byte> memory) override {
      if (memory.size() == 1) return Error(Code::kResourceExhausted, "too small to register");
      ++*reads_;
      return inner_->Attach(memory);
    }
    void Detach(std::span<std::byte> memory) override {
      --*reads_;
      inner_->Detach(memory);
    }
    size_t Submit(std::span<const DeviceRead> asked) override {
      const size_t accepted = inner_->Submit(asked);
      *reads_ += static_cast<int>(accepted);
      return accepted;
    }
    size_t Reap(std::span<DeviceCompletion> out, std::chrono::nanoseconds timeout) override {
      return inner_->Reap(out, timeout);
    }
    void Cancel(uint64_t tag) override { inner_->Cancel(tag); }
    void Promote(uint64_t tag) override { inner_->Promote(tag); }
    void Drain() override { inner_->Drain(); }

   private:
    const std::unique_ptr<ReadQueue> inner_;
    int* const reads_;
  };

  ReadCountingDevice(std::unique_ptr<BlockDevice> inner, uint64_t alignment)
      : inner_(std::move(inner)), alignment_(alignment) {}
  const std::string& name() const override { return inner_->name(); }
  size_t num_files() const override { return inner_->num_files(); }
  uint64_t file_bytes(size_t file_idx) const override { return inner_->file_bytes(file_idx); }
  uint64_t alignment() const override { return alignment_; }
  Result<std::unique_ptr<ReadQueue>> OpenQueue() override {
    PICCHIO_ASSIGN_OR_RETURN(auto queue, inner_->OpenQueue());
    return std::unique_ptr<ReadQueue>(std::make_unique<Queue>(std::move(queue), &reads));
  }

  int reads = 0;

 private:
  const std::unique_ptr<BlockDevice> inner_;
  const uint64_t alignment_;
};

TEST_F(SafetensorsExpertSourceTest, TensorsThatFollowEachOtherAreOneRead) {
  ASSERT_OK(WriteTestFiles(folder_.path(), files_));
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenFiles(folder_.path(), FileNames()));
  ASSERT_OK_AND_ASSIGN(auto inner, OpenDevice());
  auto counting = std::make_unique<ReadCountingDevice>(std::move(inner), 1);
  ReadCountingDevice* device = counting.get();
  ASSERT_OK_AND_ASSIGN(const auto source,
                       SafetensorsExpertSource::Open(directory, std::move(counting), layout_,
                                                     kMoeLayers, kPerLayer));
  std::vector<std::byte> memory;
  EXPECT_OK(ReadOne(*source, {1, 0}, memory).status);
  EXPECT_EQ(device->reads, 1) << "the first file has them in the record's order";
  EXPECT_OK(ReadOne(*source, {1, 3}, memory).status);
  EXPECT_EQ(device->reads, 1 + 4) << "the second has them reversed";

  // Memory is announced to the device's queue.
  const MemoryChunk chunk{.bytes = memory.size(), .data = memory.data()};
  EXPECT_OK(source->Attach(chunk));
  EXPECT_EQ(device->reads, 6);
  source->Detach(chunk);
  EXPECT_EQ(device->reads, 5);
  EXPECT_THAT(source->Attach({.bytes = 1, .data = memory.data()}),
              Fails(Code::kResourceExhausted, "too small"));
}

TEST_F(SafetensorsExpertSourceTest, RefusesDevicesThatDoNotFit) {
  ASSERT_OK(WriteTestFiles(folder_.path(), files_));
  ASSERT_OK_AND_ASSIGN(const TensorDirectory directory,
                       TensorDirectory::OpenFiles(folder_.path(), FileNames()));
  const auto open = [&](std::unique_ptr<BlockDevice> device) {
    return SafetensorsExpertSource::Open(directory, std::move(device), layout_, kMoeLayers,
                                         kPerLayer);
  };
  ASSERT_OK_AND_ASSIGN(auto inner, OpenDevice());
  EXPECT_THAT(open(std::make_unique<ReadCountingDevice>(std::move(inner), 4096)),
              Fails(Code::kUnsupported, "multiples of 4096 bytes only"));
  const std::vector<Path> one = {folder_ / "dense.safetensors"};
  ASSERT_OK_AND_ASSIGN(auto too_few, BufferedDevice::Open(one, {}));
  EXPECT_THAT(open(std::move(too_few)),
              Fails(Code::kInvalidArgument, "has 1 files, the model's directory 3"));
  std::filesystem::resize_file(folder_ / "experts-00002.safetensors", 77);
  ASSERT_OK_AND_ASSIGN(auto changed, OpenDevice());
  EXPECT_THAT(open(std::move(changed)),
              Fails(Code::kCorrupt, "\"experts-00002.safetensors\" changed while it was opened"));
}

constexpr char kTensor[] = "model.layers.2.mlp.experts.down_proj.3";

TEST_F(SafetensorsExpertSourceTest, AMissingTensorIsNamed) {
  Remove(std::string(kTensor) + ".qs");
  EXPECT_THAT(Open(), Fails(Code::kNotFound, std::string(kTensor) + ".qs"));
}

TEST_F(SafetensorsExpertSourceTest, AnotherShapeIsNamed) {
  TestTensor& tensor = Tensor(kTensor);
  tensor.shape = {tensor.shape[0] - 1};
  tensor.bytes.pop_back();
  EXPECT_THAT(Open(), Fails(Code::kCorrupt, kTensor));
  EXPECT_THAT(Open(), Fails(Code::kCorrupt, "is U8 [769], expected U8 [770]"));
}

TEST_F(SafetensorsExpertSourceTest, AnotherDtypeIsNamed) {
  Tensor(kTensor).dtype = Dtype::kI8;
  EXPECT_THAT(Open(), Fails(Code::kCorrupt, "is I8 [770], expected U8 [770]"));
}

// As conversions of F32 and F16 checkpoints have them. One of the two matrices' biases stays BF16.
TEST_F(SafetensorsExpertSourceTest, BiasesMayBeF32) {
  UseLayout(TestLayout(PayloadKind::kMxfp4, RecordVersion::kV3, true));
  const RecordPart part = layout_.down_bias;
  const auto record = [&](ExpertKey key) {
    std::vector<std::byte> bytes = TestRecord(key, layout_);
    // Bits that no BF16 has.
    for (uint64_t i = 0; i < part.bytes; i += 4) {
      bytes[part.offset + i] = static_cast<std::byte>(i + static_cast<uint64_t>(key.expert));
    }
    return bytes;
  };
  for (const int layer : kMoeLayers) {
    TestTensor& bias = Tensor(fmt::format("model.layers.{}.mlp.experts.down_proj_bias", layer));
    bias.dtype = Dtype::kF32;
    bias.bytes.clear();
    for (int expert = 0; expert < kPerLayer; ++expert) {
      const std::vector<std::byte> bytes = record({layer, expert});
      bias.bytes.append(reinterpret_cast<const char*>(bytes.data()) + part.offset, part.bytes);
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto source, Open());
  for (const int layer : kMoeLayers) {
    for (int expert = 0; expert < kPerLayer; ++expert) {
      std::vector<std::byte> memory;
      EXPECT_OK(ReadOne(*source, {layer, expert}, memory).status);
      EXPECT_EQ(memory, record({layer, expert}));
    }
  }
}

TEST_F(SafetensorsExpertSourceTest, BiasesAreCheckedToo) {
  UseLayout(TestLayout(PayloadKind::kMxfp4, RecordVersion::kV3, true));
  TestTensor& bias = Tensor("model.layers.1.mlp.experts.down_proj_bias");
  const TestTensor whole = bias;
  bias.dtype = Dtype::kF16;
  EXPECT_THAT(Open(), Fails(Code::kCorrupt, "is F16 [4,96], expected BF16 [4,96]"));
  bias = whole;
  bias.shape = {2, 192};
  EXPECT_THAT(Open(), Fails(Code::kCorrupt, "is BF16 [2,192], expected BF16 [4,96]"));
  bias.name = "another";
  EXPECT_THAT(Open(), Fails(Code::kNotFound, "model.layers.1.mlp.experts.down_proj_bias"));
}

TEST_F(SafetensorsExpertSourceTest, AFileCutShortWhileInUseFailsByName) {
  ASSERT_OK_AND_ASSIGN(const auto source, Open());
  const Path path = folder_ / "experts-00002.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<std::byte> memory;
  // The last tensor of the file is a part of its last expert; all others are whole.
  const Completion completion = ReadOne(*source, {2, 3}, memory);
  EXPECT_THAT(completion.status, Fails(Code::kIoError, "experts-00002.safetensors ends at byte"));
  EXPECT_TRUE(completion.status.message().starts_with("layer 2 expert 3: "));
  EXPECT_OK(ReadOne(*source, {2, 2}, memory).status);
  EXPECT_EQ(memory, TestRecord({2, 2}, layout_));
}

TEST_F(SafetensorsExpertSourceTest, LayersWithoutExpertsHaveNone) {
  ASSERT_OK_AND_ASSIGN(const auto source, Open());
  std::vector<std::byte> memory;
  EXPECT_THAT(ReadOne(*source, {0, 1}, memory).status,
              Fails(Code::kNotFound, "layer 0 expert 1: no such expert in"));
}

}  // namespace
}  // namespace picchio
