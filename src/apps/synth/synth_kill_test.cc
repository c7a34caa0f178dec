// What a process leaves that is killed, stopped or out of room while it makes a model: nothing that
// looks like one.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "apps/child_process_test_support.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/verify.h"

namespace picchio {
namespace {

using std::chrono::microseconds;

class MadeByAProcess : public testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return {"synth", model_.string(), "--shape", "tiny-qwen3", "--skew", "0.5"};
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path temporary_ = folder_ / "model.picchio-tmp";
};

TEST_F(MadeByAProcess, KilledAtAnyMomentItLeavesAWholeModelOrNone) {
  const auto start = std::chrono::steady_clock::now();
  {
    ChildProcess child(Arguments());
    ASSERT_EQ(child.Wait(), 0) << child.err();
  }
  auto duration =
      std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - start);
  const std::string manifest = ReadAll(model_ / "manifest.json");
  std::mt19937 random(7);
  constexpr int kKills = 10;
  int kills = 0;
  for (int attempt = 0; kills < kKills && attempt < 20 * kKills; ++attempt) {
    // What the last one left under the temporary name stays.
    std::filesystem::remove_all(model_);
    ChildProcess child(Arguments());
    std::this_thread::sleep_for(
        microseconds(random() % static_cast<uint64_t>(duration.count() * 11 / 10)));
    if (child.Kill()) {
      ++kills;
    } else {  // It is quicker than when it was measured.
      duration = std::max(duration * 3 / 4, microseconds(1));
    }
    if (!SomethingExists(model_)) continue;
    ASSERT_OK(VerifyModel(model_, 2, kNoStop));
    ASSERT_EQ(ReadAll(model_ / "manifest.json"), manifest);
  }
  EXPECT_EQ(kills, kKills);
  std::filesystem::remove_all(model_);
  ChildProcess last(Arguments());
  ASSERT_EQ(last.Wait(), 0) << last.err();
  EXPECT_EQ(ReadAll(model_ / "manifest.json"), manifest);
  EXPECT_FALSE(SomethingExists(temporary_));
}

TEST_F(MadeByAProcess, InterruptedItLeavesNothing) {
  ChildProcess child(Arguments());
  while (child.running() && !SomethingExists(temporary_)) {
    std::this_thread::sleep_for(microseconds(100));
  }
  child.Signal(SIGINT);
  if (child.Wait() == 0) return;  // It may just have been done.
  EXPECT_FALSE(SomethingExists(model_));
}

// A limit on the size of files refuses writes as a full disk does.
TEST_F(MadeByAProcess, AFullDiskIsASentence) {
  for (const rlim_t limit : {rlim_t{1000}, rlim_t{2} << 20, rlim_t{4} << 20}) {
    ChildProcess child(Arguments(), [limit] {
      const rlimit of_files{limit, limit};
      setrlimit(RLIMIT_FSIZE, &of_files);
    });
    EXPECT_EQ(child.Wait(), 1);
    const std::string err = child.err();
    EXPECT_THAT(err, testing::HasSubstr("File too large"));
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_FALSE(SomethingExists(model_));
    EXPECT_FALSE(SomethingExists(temporary_));
  }
}

TEST_F(MadeByAProcess, TwoAtOnceAreOneAndARefusal) {
  ChildProcess first(Arguments());
  ChildProcess second(Arguments());
  const int codes[] = {first.Wait(), second.Wait()};
  const std::string said = first.err() + second.err();
  EXPECT_EQ(std::min(codes[0], codes[1]), 0) << said;
  EXPECT_EQ(std::max(codes[0], codes[1]), 1) << said;
  EXPECT_OK(VerifyModel(model_, 2, kNoStop));
}

}  // namespace
}  // namespace picchio
