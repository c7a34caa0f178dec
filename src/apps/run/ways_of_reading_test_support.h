// A model that is read in every way there is, for tests that compare the bits of its logits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/pack/store_test_support.h"
#include "apps/run/scored_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "io/direct_device.h"
#include "io/faulty_device.h"
#include "support/build_folder.h"
#include "support/test_support.h"

namespace picchio {

inline constexpr IoKind kAllKinds[] = {IoKind::kAuto, IoKind::kBuffered, IoKind::kDirect,
                                       IoKind::kUring};

// When a layer is computed, and what is read before it: none of it changes a bit.
struct Manner {
  bool async_moe = true;
  Prefetch prefetch = Prefetch::kAuto;
};
inline constexpr Manner kManners[] = {
    {true, Prefetch::kOff}, {true, Prefetch::kOn}, {false, Prefetch::kOff}, {false, Prefetch::kOn}};

// For StorageOptions::wrap_store. The first queue of the device reads the store's index.
inline std::function<std::unique_ptr<BlockDevice>(std::unique_ptr<BlockDevice>)> WithFaults(
    const FaultPlan& plan) {
  return [plan](std::unique_ptr<BlockDevice> device) -> std::unique_ptr<BlockDevice> {
    return std::make_unique<FaultyDevice>(std::move(device), plan);
  };
}

// A model of 4 layers with both forms of its experts, and what it says.
class WaysOfReading : public testing::Test {
 protected:
  void SetUp() override {
    MakeModelWithoutStore("qwen3_moe_tiny", PayloadKind::kInt4, folder());
    bytes_ = StoreWriter(folder()).Make(3).Bytes();
    reference_.emplace(folder(), StorageOptions{.flat_off = true, .io = IoKind::kBuffered});
    ASSERT_FALSE(reference_->logits.empty());
  }

  Path folder() const { return temporary_ / "model"; }
  Path store() const { return folder() / kFlatStoreName; }
  void WriteStore() { Write(bytes_); }
  void Write(const std::string& bytes) {
    WriteAll(store(), bytes);
    // Dirty pages are written before an unbuffered read, which they delay.
    ASSERT_OK(File::OpenForWrite(store()).value().Sync());
  }
  // The same model with nothing but a store.
  Path alone() const { return temporary_ / "alone"; }
  void MakeAlone() {
    ASSERT_OK(Convert(FixtureCheckpoint("qwen3_moe_tiny"), alone(), {.experts = PayloadKind::kInt4},
                      2, kGoOn));
  }
  // Whether files of this folder can be read past the page cache.
  bool DirectWorks() const {
    const Path path = store();
    return DirectDevice::Open({&path, 1}, {}).value()->alignment() > 1;
  }

  // Token by token, with a cache that has slots for what two layers use, and as many to read ahead.
  EngineOptions SmallCache(const StorageOptions& storage, const Manner& manner) {
    EngineOptions options = Scored::Options(storage);
    if (small_cache_bytes_ == 0) {
      const auto setup =
          EngineSetup::Open(folder(), Scored::Options({.io = IoKind::kBuffered})).value();
      const MemoryPlan plan = setup->Plan().value();
      const uint64_t slot_bytes = plan.cache_bytes / plan.num_slots;
      small_cache_bytes_ = 4 * setup->config().experts_per_token * slot_bytes;
    }
    options.memory.cache_bytes = small_cache_bytes_;
    options.memory.prefill_span = 1;
    options.async_moe = manner.async_moe;
    options.prefetch = manner.prefetch;
    return options;
  }

  BuildTemporaryFolder temporary_;
  std::string bytes_;  // Of a store of version 3.
  uint64_t small_cache_bytes_ = 0;
  std::optional<Scored> reference_;
};

}  // namespace picchio
