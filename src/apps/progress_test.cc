#include "apps/progress.h"

#include <chrono>
#include <functional>
#include <string>
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

std::chrono::steady_clock::time_point g_now;

void At(double seconds) {
  g_now = std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

// What is said of this work, which begins at 0 s.
std::string Said(bool terminal, uint64_t total, const char* unit,
                 const std::function<void(Progress&)>& work) {
  testing::internal::CaptureStderr();
  At(0);
  {
    Progress progress("packing", total, unit, {.terminal = terminal, .now = [] { return g_now; }});
    work(progress);
  }
  return testing::internal::GetCapturedStderr();
}

// Quiet for two seconds, then a line every ten.
TEST(Progress, SaysALineNowAndThenWhereNobodyWatches) {
  EXPECT_EQ(Said(false, 11'000'000, "B",
                 [](Progress& progress) {
                   At(1.9);
                   progress.Add(1'000'000);
                   At(2);
                   progress.Add(1'000'000);
                   At(11.9);
                   progress.Add(1'000'000);
                   progress.SetAside("2 threads wait");
                   At(12);
                   progress.SetDone(9'000'000);
                   progress.SetAside("");
                   At(22);
                   progress.SetDone(8'000'000);  // It never goes back.
                 }),
            "packing:  18 %  2 MB of 11 MB, 1 MB/s, 9.0 s left\n"
            "packing:  82 %  9 MB of 11 MB, 750 kB/s, 2.7 s left; 2 threads wait\n"
            "packing:  82 %  9 MB of 11 MB, 409 kB/s, 4.9 s left\n");
}

// One line, drawn again every fifth of a second and wiped at the end.
TEST(Progress, DrawsABarOnATerminal) {
  EXPECT_EQ(Said(true, 48, "caches",
                 [](Progress& progress) {
                   At(2);
                   progress.Add(12);
                   At(2.1);
                   progress.Add(1);
                   At(2.25);
                   progress.Add(14);
                   At(4);
                   progress.Add(21);
                 }),
            "\r\033[Kpacking [######..................]  25 %  12 of 48 caches, 6.0/s, 6.0 s left"
            "\r\033[Kpacking [#############...........]  56 %  27 of 48 caches, 12.0/s, 1.8 s left"
            "\r\033[Kpacking [########################] 100 %  48 of 48 caches, 12.0/s, 0.0 s left"
            "\r\033[K");
  EXPECT_EQ(Said(true, 48, "B", [](Progress& progress) { progress.Add(48); }), "");
  // Nothing to do is done.
  EXPECT_EQ(Said(false, 0, "B",
                 [](Progress& progress) {
                   At(3);
                   progress.Add(0);
                 }),
            "packing: 100 %  0 B of 0 B, 0 B/s, 0.0 s left\n");
}

TEST(Progress, LinesAreToldFromWhatACommandSays) {
  const std::string said = "picchio convert: the disk is full, 3 of 4 tensors are left\n";
  EXPECT_EQ(WithoutProgress("converting:  82 %  9 MB of 11 MB, 5 MB/s, 0.4 s left\n" + said +
                            "reading the prompt: 100 %  7 of 7 positions, 3.1/s, 0 s left\n" +
                            "making the model:   1 %  1 MB of 99 MB, 1 MB/s, 98 s left; so far\n"),
            said);
}

}  // namespace
}  // namespace picchio
