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
  ASSERT_EQ(ChildProcess(Arguments()).Wait(), 0);
  const std::string manifest = ReadAll(model_ / "manifest.json");
  // What the last one left under the temporary name stays.
  const auto remove = [&](int) { std::filesystem::remove_all(model_); };
  EXPECT_TRUE(KillAtRandomMoments(Arguments(), KillsWanted(10), 7, remove, [&] {
    if (!SomethingExists(model_)) return;
    ASSERT_OK(VerifyModel(model_, 2, kGoOn));
    ASSERT_EQ(ReadAll(model_ / "manifest.json"), manifest);
  }));
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
  EXPECT_OK(VerifyModel(model_, 2, kGoOn));
}

}  // namespace
}  // namespace picchio
