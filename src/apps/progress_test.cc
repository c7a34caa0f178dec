#include "apps/progress.h"

#include <thread>

#include "apps/progress_test_support.h"
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

TEST(Progress, LinesAreToldFromWhatACommandSays) {
  const std::string said = "picchio convert: the disk is full, 3 of 4 tensors are left\n";
  EXPECT_EQ(WithoutProgress("converting:  82 %  9 MB of 11 MB, 5 MB/s, 0.4 s left\n" + said +
                            "reading the prompt: 100 %  7 of 7 positions, 3.1/s, 0 s left\n"),
            said);
}

}  // namespace
}  // namespace picchio
