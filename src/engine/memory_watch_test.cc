#include "engine/memory_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/cgroup.h"
#include "base/units.h"
#include "experts/null_expert_source.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::milliseconds;

// Slots of 1 MiB, as many as said, 8 to a chunk.
std::unique_ptr<ExpertCache> MakeCache(size_t num_slots) {
  auto layout =
      ExpertRecordLayout::Make(PayloadKind::kBf16, RecordVersion::kV3, 512, 340, false).value();
  EXPECT_EQ(SlotArena::StrideFor(layout.record_bytes), 1_MiB);
  return ExpertCache::Create(
             std::make_unique<NullExpertSource>(layout, NullExpertSource::Fill::kNothing),
             {.num_slots = num_slots, .chunk_bytes = 8_MiB})
      .value();
}

class MemoryWatchTest : public testing::Test {
 protected:
  void Limit(uint64_t limit_bytes, uint64_t used_bytes) {
    memory_.groups = {
        {.limit_bytes = limit_bytes, .used_bytes = used_bytes, .limit_file = "/g/memory.max"}};
  }
  void Check() {
    now_ += std::chrono::seconds(2);
    watch_.Check();
  }

  MemoryInfo memory_{.physical_bytes = 8_GiB, .available_bytes = 8_GiB};
  MemoryWatch::Clock::time_point now_{};
  int reads_ = 0;
  std::unique_ptr<ExpertCache> cache_ = MakeCache(64);
  MemoryWatch watch_{*cache_,
                     [this]() -> Result<MemoryInfo> {
                       ++reads_;
                       return memory_;
                     },
                     [this] { return now_; }};
};

TEST_F(MemoryWatchTest, GivesBackWhatALowerLimitTakes) {
  Limit(400_MiB, 300_MiB);
  Check();
  Check();
  EXPECT_EQ(cache_->num_slots(), 64u);
  // 20 MiB are to stay free (a twentieth), 17 are missing: three chunks of 8.
  Limit(320_MiB, 319_MiB - 2_MiB);
  Check();
  EXPECT_EQ(cache_->num_slots(), 48u);  // 16 - 3 = 13 missing: two chunks.
  EXPECT_EQ(watch_.bytes_given_back(), 16_MiB);
  Limit(320_MiB, 301_MiB);
  Check();
  EXPECT_EQ(cache_->num_slots(), 48u);
}

TEST_F(MemoryWatchTest, MeetsALimitBelowTheUse) {
  Limit(400_MiB, 300_MiB);
  Check();
  Limit(290_MiB, 300_MiB);
  memory_.hugetlb_bytes = 1_MiB;
  Check();
  EXPECT_EQ(cache_->num_slots(), 32u);  // 11 and 14.5 MiB.
}

TEST_F(MemoryWatchTest, ALimitMayComeWhereNoneWas) {
  Check();
  Limit(100_MiB, 110_MiB);
  Check();
  EXPECT_EQ(cache_->num_slots(), 40u);  // 10 and 8 MiB.
  Limit(1_MiB, 100_MiB);
  Check();
  EXPECT_EQ(cache_->num_slots(), 8u) << "the last chunk stays";
}

TEST_F(MemoryWatchTest, LeavesACacheAloneThatWasAskedForToTheLastByte) {
  Limit(300_MiB, 300_MiB);
  Check();
  Limit(300_MiB, 305_MiB);
  Check();
  EXPECT_EQ(cache_->num_slots(), 64u);
}

// The group whose limit comes down need not be the one that left least room at the beginning, nor
// the one that does now.
TEST_F(MemoryWatchTest, EveryGroupsLimitCounts) {
  const auto groups = [&](uint64_t tight_limit, uint64_t wide_limit, const char* wide_file) {
    memory_.groups = {
        {.limit_bytes = tight_limit, .used_bytes = 298_MiB, .limit_file = "/tight/memory.max"},
        {.limit_bytes = wide_limit, .used_bytes = 400_MiB, .limit_file = wide_file}};
  };
  groups(300_MiB, 800_MiB, "/wide/memory.max");
  Check();
  Check();
  EXPECT_EQ(cache_->num_slots(), 64u);
  // 20.5 MiB are to be free there, 10 are.
  groups(300_MiB, 410_MiB, "/wide/memory.high");
  Check();
  EXPECT_EQ(cache_->num_slots(), 48u);
}

TEST_F(MemoryWatchTest, LooksOnceASecond) {
  for (int i = 0; i < 50; ++i) {
    now_ += milliseconds(100);
    watch_.Check();
  }
  EXPECT_EQ(reads_, 5);
}

// A real memory cgroup of v1 or v2, where this machine lets one be made.
class RealCgroup {
 public:
  RealCgroup() {
    for (const CgroupFolder& group : CgroupFolders("/", "memory")) {
      const Path folder = Path(group.path) / fmt::format("picchio-test-{}", getpid());
      std::error_code error;
      if (!std::filesystem::create_directory(folder, error)) continue;
      const bool limits = FileExists(folder / LimitName(group.v2));
      if (limits) {
        folder_ = folder;
        v2_ = group.v2;
        return;
      }
      std::filesystem::remove(folder, error);
    }
  }
  ~RealCgroup() {
    std::error_code error;
    if (made()) std::filesystem::remove(folder_, error);
  }
  RealCgroup(const RealCgroup&) = delete;
  RealCgroup& operator=(const RealCgroup&) = delete;

  bool made() const { return !folder_.empty(); }
  bool Join() const { return Write("cgroup.procs", std::to_string(getpid())); }
  bool SetLimit(uint64_t bytes) const { return Write(LimitName(v2_), std::to_string(bytes)); }

  uint64_t Used() const {
    std::ifstream in(folder_ / (v2_ ? "memory.current" : "memory.usage_in_bytes"));
    uint64_t bytes = 0;
    in >> bytes;
    return bytes;
  }

 private:
  static const char* LimitName(bool v2) { return v2 ? "memory.high" : "memory.limit_in_bytes"; }
  bool Write(const char* name, const std::string& text) const {
    std::ofstream out(folder_ / name);
    out << text;
    return static_cast<bool>(out.flush());
  }

  Path folder_;
  bool v2_ = false;
};

// In a child, which alone is in the group: a cache of 128 MiB under a limit that begins 64 MiB
// above all that the group uses then, a sanitizer's own memory included, and comes down by 96 MiB,
// step by step. Returns what went wrong; 0 nothing.
int RunUnderAShrinkingLimit(const RealCgroup& group) {
  if (!group.Join()) return 2;
  const auto cache = MakeCache(128);
  const Result<MemoryInfo> before = ReadMemoryInfo();
  if (!before.has_value()) return 3;
  const uint64_t begin = RoundUp(group.Used(), 8_MiB) + 64_MiB;
  if (!group.SetLimit(begin)) return 4;
  MemoryWatch::Clock::time_point now{};
  MemoryWatch watch(
      *cache, [] { return ReadMemoryInfo(); }, [&now] { return now; });
  watch.Check();
  const std::vector<int32_t> experts = {0, 1, 2, 3};
  for (uint64_t limit = begin - 4_MiB; limit >= begin - 96_MiB; limit -= 4_MiB) {
    if (!group.SetLimit(limit)) return 5;
    now += std::chrono::seconds(2);
    watch.Check();
    ExpertCache::Fetch fetch = cache->Begin(0, experts);
    for (size_t seen = 0; seen < experts.size();) {
      const auto ready = fetch.Next();
      if (!ready.has_value() || ready->empty()) return 6;
      seen += ready->size();
    }
  }
  return cache->num_slots() <= 96 && watch.bytes_given_back() >= 32_MiB ? 0 : 7;
}

TEST(MemoryWatch, GivesMemoryBackInARealCgroup) {
  const RealCgroup group;
  if (!group.made()) GTEST_SKIP() << "no memory cgroup can be made here";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(RunUnderAShrinkingLimit(group));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace picchio
