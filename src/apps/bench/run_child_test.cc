#include "apps/bench/run_child.h"

#include <thread>

#include "apps/bench/fake_program_test_support.h"

namespace picchio {
namespace {

TEST(RunChild, GivesItsOutputAndNothingOfItsStandardError) {
  const TemporaryFolder folder;
  const Path program =
      FakeProgram(folder, "echo note >&2\necho \"$1|$2|$WORD|$PICCHIO_TEST\"; cat");
  setenv("PICCHIO_TEST", "ours", 1);
  ASSERT_OK_AND_ASSIGN(const std::string out,
                       RunChild({.program = program,
                                 .arguments = {"a b", "$c"},
                                 .environment = {"WORD=first", "WORD=last one"}},
                                kGoOn));
  EXPECT_EQ(out, "a b|$c|last one|ours\n");
}

TEST(RunChild, AFailureIsOneSentenceWithWhatItSaidLast) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& lines) {
    return RunChild({.program = FakeProgram(folder, lines)}, kGoOn);
  };
  EXPECT_THAT(
      run("echo one >&2; printf '10 %%\\rpicchio run: no such model\\n\\n' >&2; exit 3"),
      Fails(Code::kUnavailable, "ended with exit code 3; it said \"picchio run: no such model\""));
  EXPECT_THAT(
      run("printf -- '--n: 0 is too few\\nRun with --help for more information.\\n' >&2; exit 2"),
      Fails(Code::kUnavailable, "ended with exit code 2; it said \"--n: 0 is too few\""));
  EXPECT_THAT(run("exit 1"), Fails(Code::kUnavailable, "exit code 1; it said nothing"));
  EXPECT_THAT(run("echo loading >&2; kill -9 $$"),
              Fails(Code::kUnavailable,
                    "killed by signal 9 (SIGKILL, as the system does where "
                    "memory ends); it said \"loading\""));
  EXPECT_THAT(run("kill -SEGV $$"), Fails(Code::kUnavailable, "signal 11 (SIGSEGV)"));
  EXPECT_THAT(RunChild({.program = folder / "none"}, kGoOn),
              Fails(Code::kUnavailable, "No such file or directory"));
}

TEST(RunChild, AStopEndsIt) {
  const TemporaryFolder folder;
  // It says when it has begun, and ends when it is told to.
  const Path program = FakeProgram(folder,
                                   "trap 'touch \"$1.ended\"; exit 0' TERM\ntouch \"$1\"\n"
                                   "while :; do sleep 0.01; done");
  const Path begun = folder / "begun";
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!FileExists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
  });
  const auto out = RunChild({.program = program, .arguments = {begun.string()}}, stop);
  watcher.join();
  EXPECT_THAT(out, Fails(Code::kCancelled, "stopped"));
  EXPECT_TRUE(FileExists(begun.string() + ".ended"));
}

}  // namespace
}  // namespace picchio
