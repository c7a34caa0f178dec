#include "base/deadline.h"

#include <thread>

#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(DeadlineTest, ZeroAndNegativeTimeoutsHavePassed) {
  for (const nanoseconds timeout : {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
    const Deadline deadline(timeout);
    EXPECT_TRUE(deadline.passed());
    EXPECT_EQ(deadline.left(), nanoseconds(0));
  }
}

TEST(DeadlineTest, ForeverNeverPasses) {
  const Deadline deadline(kForever);
  EXPECT_TRUE(deadline.never());
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.left(), kForever);
}

TEST(DeadlineTest, AnHourIsNotOver) {
  const Deadline deadline(hours(1));
  EXPECT_FALSE(deadline.never());
  EXPECT_FALSE(deadline.passed());
  EXPECT_LE(deadline.left(), hours(1));
  EXPECT_GT(deadline.left(), milliseconds(1));
}

TEST(DeadlineTest, WaitEndsAtTheDeadlineOrWithTheCondition) {
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(Deadline(milliseconds(1)).Wait(condition, lock, [&] { return done; }));

  std::thread setter([&] {
    const std::scoped_lock hold(mutex);
    done = true;
    condition.notify_one();
  });
  EXPECT_TRUE(Deadline(kForever).Wait(condition, lock, [&] { return done; }));
  setter.join();
}

}  // namespace
}  // namespace picchio
