// Whatever way the bytes come, and whatever goes wrong on it, the logits are the same or the run
// stops in words.
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "apps/child_process_test_support.h"
#include "apps/pack/store_test_support.h"
#include "apps/run/scored_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "base/json.h"
#include "io/direct_device.h"
#include "io/faulty_device.h"
#include "io/restricted_process_test_support.h"
#include "io/uring_ring.h"
#include "support/test_support.h"

namespace picchio {
namespace {

constexpr const char* kStoreName = "experts.picchioflat";
constexpr IoKind kAllKinds[] = {IoKind::kAuto, IoKind::kBuffered, IoKind::kDirect, IoKind::kUring};

class WaysOfReading : public testing::Test {
 protected:
  void SetUp() override {
    MakeModelWithoutStore("qwen3_moe_tiny", PayloadKind::kInt4, folder());
    bytes_ = StoreWriter(folder()).Make(3).Bytes();
    reference_.emplace(folder(), StorageOptions{.flat_off = true, .io = IoKind::kBuffered});
    ASSERT_FALSE(reference_->logits.empty());
  }

  Path folder() const { return temporary_ / "model"; }
  Path store() const { return folder() / kStoreName; }
  void WriteStore() { Write(bytes_); }
  void Write(const std::string& bytes) {
    WriteAll(store(), bytes);
    // Dirty pages are written before an unbuffered read, which they delay.
    ASSERT_OK(File::OpenForWrite(store()).value().Sync());
  }
  // Whether files of this folder can be read past the page cache.
  bool DirectWorks() const {
    const Path path = store();
    return DirectDevice::Open({&path, 1}, {}).value()->alignment() > 1;
  }

  TemporaryFolder temporary_;
  std::string bytes_;  // Of a store of version 3.
  std::optional<Scored> reference_;
};

TEST_F(WaysOfReading, EveryWayGivesTheSameBits) {
  for (const uint32_t version : {2U, 3U}) {
    Write(StoreWriter(folder()).Make(version).Bytes());
    for (const IoKind kind : kAllKinds) {
      const Scored scored(folder(), {.flat_trust = true, .io = kind});
      EXPECT_TRUE(scored.SameBits(*reference_)) << version;
      ASSERT_EQ(scored.engine->devices().size(), 2U);
      const DeviceReport report = scored.engine->devices()[0].device->Report();
      EXPECT_GT(report.num_reads, 0U);
      const bool direct = kind != IoKind::kBuffered && DirectWorks();
      EXPECT_EQ(report.direct_bytes > 0, direct) << scored.engine->devices()[0].choice;
      EXPECT_EQ(scored.engine->tiers()[0].failed, 0U);
    }
  }
}

TEST_F(WaysOfReading, TheContainerIsReadPastThePageCacheWhereAsked) {
  WriteStore();
  for (const IoKind kind : kAllKinds) {
    const Scored scored(folder(), {.flat_off = true, .io = kind, .queue_depth = 4});
    EXPECT_TRUE(scored.SameBits(*reference_));
    ASSERT_EQ(scored.engine->devices().size(), 1U);
    const DeviceReport report = scored.engine->devices()[0].device->Report();
    const bool asked = kind == IoKind::kDirect || kind == IoKind::kUring;
    EXPECT_EQ(report.direct_bytes > 0, asked && DirectWorks());
    EXPECT_EQ(report.num_direct_failures, 0U);
  }
}

// Unbuffered requests that fail are repeated buffered, and counted: no tier notices.
TEST_F(WaysOfReading, WhatFailsUnbufferedIsReadBuffered) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  for (const IoKind kind : {IoKind::kDirect, IoKind::kUring}) {
    for (const bool flat_off : {false, true}) {
      for (const double rate : {0.001, 0.05}) {
        const auto faults = std::make_shared<TransferFaults>(TransferFaultPlan{
            .interrupt_rate = rate, .short_rate = rate, .direct_error_rate = rate});
        Scored scored(folder(), {.flat_off = flat_off, .io = kind, .faults = faults}, 1);
        for (int i = 0; i < 6; ++i) {
          EXPECT_TRUE(scored.SameBits(*reference_));
          ASSERT_OK(scored.Score());
        }
        for (const TierStats& tier : scored.engine->tiers()) EXPECT_EQ(tier.failed, 0U);
        EXPECT_THAT(scored.notices, testing::IsEmpty());
        const DeviceReport report = scored.engine->devices()[0].device->Report();
        if (rate < 0.01) continue;
        EXPECT_GT(report.num_direct_failures, 0U);
        EXPECT_GT(report.buffered_bytes, 0U);
        ASSERT_FALSE(report.notes.empty());
        EXPECT_THAT(report.notes.back(), testing::HasSubstr("repeated through the page cache"));
      }
    }
  }
}

std::function<std::unique_ptr<BlockDevice>(std::unique_ptr<BlockDevice>)> WithFaults(
    const FaultPlan& plan) {
  return [plan](std::unique_ptr<BlockDevice> device) -> std::unique_ptr<BlockDevice> {
    return std::make_unique<FaultyDevice>(std::move(device), plan);
  };
}

// Reads that fail for good come from the container, or stop the run where there is none.
TEST_F(WaysOfReading, ReadsThatFailComeFromTheNextTierOrEndTheRunInWords) {
  WriteStore();
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    for (const double rate : {0.001, 0.05}) {
      // The first queue of the device reads the index: under this seed nothing happens to it.
      const StorageOptions options{
          .io = kind, .wrap_store = WithFaults({.seed = 2, .fail_rate = rate, .shuffle = true})};
      Scored scored(folder(), options, 1);
      ASSERT_NE(scored.engine, nullptr);
      for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(scored.SameBits(*reference_));
        ASSERT_OK(scored.Score());
      }
      const auto tiers = scored.engine->tiers();
      ASSERT_EQ(tiers.size(), 2U) << scored.engine->store_refusal();
      EXPECT_EQ(tiers[1].served, tiers[0].failed);
      if (rate > 0.01) {
        EXPECT_GT(tiers[0].failed, 0U);
        EXPECT_EQ(scored.notices.size(), 1U);
      }
    }
  }
}

// Files that change under a run that has them open.
TEST_F(WaysOfReading, TheStoreMayBeTakenAwayDuringTheRun) {
  for (const IoKind kind : kAllKinds) {
    for (const std::string what : {"cut short", "unlinked", "replaced"}) {
      WriteStore();
      Scored scored(folder(), {.io = kind}, 1);
      ASSERT_NE(scored.engine, nullptr);
      if (what == "cut short") {
        std::filesystem::resize_file(store(), 3 * 4096);
      } else if (what == "unlinked") {
        std::filesystem::remove(store());
      } else {
        WriteAll(folder() / "other", std::string(bytes_.size(), 'x'));
        std::filesystem::rename(folder() / "other", store());
      }
      ASSERT_OK(scored.Score()) << what;
      EXPECT_TRUE(scored.SameBits(*reference_)) << what;
      EXPECT_EQ(scored.engine->tiers()[0].failed > 0, what == "cut short") << what;
    }
  }
}

// A run that is stopped while reads are at the device gives everything back, and can go on.
TEST_F(WaysOfReading, StoppedWithReadsInFlight) {
  WriteStore();
  for (const IoKind kind : {IoKind::kBuffered, IoKind::kUring}) {
    const StorageOptions options{
        .io = kind,
        .wrap_store = WithFaults({.delay_rate = 1, .delay = std::chrono::milliseconds(3)})};
    Scored scored(folder(), options, 1);
    ASSERT_NE(scored.engine, nullptr);
    const BlockDevice& device = *scored.engine->devices()[0].device;
    const uint64_t before = device.Report().num_reads;
    std::atomic<bool> cancel{false};
    std::atomic<bool> over{false};
    std::thread stopper([&] {
      // The device has read something that its user does not have yet.
      while (device.Report().num_reads == before && !over) std::this_thread::yield();
      cancel = true;
    });
    const Status status = scored.Score({.cancel = &cancel});
    over = true;
    stopper.join();
    EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
    ASSERT_OK(scored.Score());
    EXPECT_TRUE(scored.SameBits(*reference_));
  }
}

// `picchio run` of the model in a process that `prepare` has restricted.
Json RunRestricted(const Path& folder, const std::function<void()>& prepare) {
  WriteAll(folder / "ids", "1 5 9 2 30 7");
  ChildProcess child({"run", folder.string(), "--ids", (folder / "ids").string(), "-n", "8",
                      "--temp", "0", "--io", "uring", "--json"},
                     prepare);
  EXPECT_EQ(child.Wait(), 0) << child.err();
  EXPECT_EQ(child.err(), "");
  return ParseJson(child.out(), "run").value();
}

TEST_F(WaysOfReading, WithoutIoUringThreadsRead) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  if (!UringRing::Open({}).has_value()) GTEST_SKIP() << "no io_uring here";
  const Json free = RunRestricted(folder(), [] {});
  const Json refused = RunRestricted(folder(), [] {
    if (!Refuse(SYS_io_uring_setup, EPERM)) _exit(102);
  });
  EXPECT_EQ(refused["ids"], free["ids"]);
  const auto choice = [](const Json& report) {
    return report["stats"]["storage"]["tiers"][0]["io"]["choice"].get<std::string>();
  };
  EXPECT_THAT(choice(free), testing::StartsWith("unbuffered reads by io_uring"));
  EXPECT_THAT(choice(refused), testing::StartsWith("unbuffered reads by 16 threads"));
  EXPECT_THAT(choice(refused), testing::HasSubstr("seccomp"));
}

TEST_F(WaysOfReading, WithoutLockedMemoryReadsGoOnUnregistered) {
  WriteStore();
  if (!DirectWorks()) GTEST_SKIP() << "no unbuffered reads in the temporary folder";
  if (!UringRing::Open({}).has_value()) GTEST_SKIP() << "no io_uring here";
  const auto limit = [](rlim_t bytes) {
    const rlimit low{.rlim_cur = bytes, .rlim_max = bytes};
    if (setrlimit(RLIMIT_MEMLOCK, &low) != 0 || !DropIpcLock()) _exit(102);
  };
  // Some kernels charge the ring itself too, and all processes of the user together: then there is
  // none, which is also said.
  const Json limited = RunRestricted(folder(), [&] { limit(64 * 1024); });
  const Json free = RunRestricted(folder(), [] {});
  EXPECT_EQ(limited["ids"], free["ids"]);
  const Json io = limited["stats"]["storage"]["tiers"][0]["io"];
  EXPECT_EQ(io["registered_bytes"], 0);
  EXPECT_THAT(io.dump(), testing::HasSubstr("RLIMIT_MEMLOCK"));
}

}  // namespace
}  // namespace picchio
