#include "apps/progress.h"

#include <thread>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(Progress, CountsFromEveryThreadAndSaysNothingAtFirst) {
  testing::internal::CaptureStderr();
  {
    Progress progress("working", 4000);
    std::thread other([&] {
      for (int i = 0; i < 1000; ++i) progress.Add(2);
    });
    for (int i = 0; i < 1000; ++i) progress.Add(2);
    other.join();
    EXPECT_EQ(progress.done(), 4000u);
    EXPECT_GE(progress.seconds(), 0.0);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace picchio
