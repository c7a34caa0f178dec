// The store's promise against what really happens to processes: the built program is killed, runs
// out of room, may not write. Each time the old store is there, or the new one, and the model takes
// it.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "apps/child_process_test_support.h"
#include "apps/pack/pack.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/verify.h"

namespace picchio {
namespace {

using std::chrono::microseconds;

class PackedByAProcess : public testing::Test {
 protected:
  void SetUp() override {
    MakeModel("qwen3_moe_tiny", std::nullopt, model_);
    old_ = ReadAll(store_);
    before_ = FolderContents(model_);
  }

  // Large blocks: another store than convert makes, and enough to write that it takes a while.
  std::vector<std::string> Arguments() const {
    return {"pack", model_.string(), "--block-size", "1048576", "--verify"};
  }

  // As a command should: one sentence, exit 1, and all as it was.
  void ExpectRefusal(ChildProcess& child, const char* message) {
    EXPECT_EQ(child.Wait(), 1);
    const std::string err = child.err();
    EXPECT_THAT(err, testing::HasSubstr(message));
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_EQ(child.out(), "");
    EXPECT_TRUE(FolderContents(model_) == before_);
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path store_ = model_ / "experts.picchioflat";
  std::string old_;
  std::map<std::string, std::string> before_;
};

// Killed at random moments, from the beginning to past the end: old store or new one, whole, and
// one that verify finds listed.
TEST_F(PackedByAProcess, KilledAtAnyMomentItLeavesAStoreThatIsTaken) {
  ASSERT_EQ(ChildProcess(Arguments()).Wait(), 0);
  const std::string packed = ReadAll(store_);
  ASSERT_FALSE(packed == old_);
  // Back to the old store, and whatever the last kill left beside it.
  const auto put_back = [&](int) {
    for (const char* name : {"experts.picchioflat", "manifest.json"}) {
      WriteAll(model_ / name, before_.at(name));
    }
  };
  EXPECT_TRUE(KillAtRandomMoments(Arguments(), KillsWanted(12), 20250303, put_back, [&] {
    const std::string found = ReadAll(store_);
    ASSERT_TRUE(found == old_ || found == packed) << "neither the old store nor the new one";
    ASSERT_OK(VerifyModel(model_, 2, kGoOn));
  }));
  ChildProcess last(Arguments());
  ASSERT_EQ(last.Wait(), 0) << last.err();
  EXPECT_TRUE(ReadAll(store_) == packed);
  EXPECT_FALSE(FileExists(model_ / "experts.picchioflat.picchio-tmp"));
}

TEST_F(PackedByAProcess, TwoAtOnceAreOneAndARefusal) {
  ChildProcess first(Arguments());
  ChildProcess second(Arguments());
  const int codes[] = {first.Wait(), second.Wait()};
  const std::string said = first.err() + second.err();
  // The one may have been done before the other began.
  EXPECT_TRUE(codes[0] == 0 || codes[1] == 0) << said;
  if (codes[0] != 0 || codes[1] != 0) {
    EXPECT_THAT(said, testing::HasSubstr("another picchio is writing"));
  }
  EXPECT_OK(VerifyModel(model_, 2, kGoOn));
}

TEST_F(PackedByAProcess, InterruptedItLeavesNothing) {
  ChildProcess child(Arguments());
  const Path temporary = model_ / "experts.picchioflat.picchio-tmp";
  while (child.running() && !FileExists(temporary)) {
    std::this_thread::sleep_for(microseconds(200));
  }
  child.Signal(SIGINT);
  // It may just have been done.
  if (child.Wait() == 0) return;
  EXPECT_THAT(child.err(), testing::HasSubstr("stopped"));
  EXPECT_TRUE(FolderContents(model_) == before_);
}

// A limit on the size of files refuses writes as a full disk does.
TEST_F(PackedByAProcess, AFullDiskIsASentence) {
  for (const rlim_t limit : {rlim_t{1000}, rlim_t{3} << 20}) {
    ChildProcess child(Arguments(), [limit] {
      const rlimit of_files{limit, limit};
      setrlimit(RLIMIT_FSIZE, &of_files);
    });
    ExpectRefusal(child, "File too large");
  }
}

TEST_F(PackedByAProcess, AReadOnlyFolderIsASentence) {
  std::filesystem::permissions(model_, std::filesystem::perms(0555));
  ChildProcess child(Arguments(), [] {
    // Permissions do not hold root back, unless the program starts without this.
    if (geteuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0) _exit(102);
  });
  const int exit_code = child.Wait();
  std::filesystem::permissions(model_, std::filesystem::perms(0755));
  if (exit_code == 102) GTEST_SKIP() << "root, and capabilities cannot be dropped";
  EXPECT_EQ(exit_code, 1);
  EXPECT_THAT(child.err(), testing::HasSubstr("Permission denied"));
  EXPECT_TRUE(FolderContents(model_) == before_);
}

TEST_F(PackedByAProcess, TheEnvironmentNamesTheLayers) {
  setenv("FLAT_LAYERS", "2", 1);
  ChildProcess child({"pack", model_.string(), "-o", (folder_ / "two").string()});
  unsetenv("FLAT_LAYERS");
  ASSERT_EQ(child.Wait(), 0) << child.err();
  EXPECT_TRUE(ReadAll(folder_ / "two") == ExpectedStore(model_, 2, 4096, 2));
}

}  // namespace
}  // namespace picchio
