// A run that is stopped, by a signal or by its reader.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "apps/child_process_test_support.h"
#include "apps/cli_test_support.h"
#include "base/json.h"

namespace picchio {
namespace {

// SIGINT ends a run between two layers: what was written so far is whole, and the exit is clean.
TEST(CliSignals, CtrlCStopsCleanly) {
  TemporaryFolder folder;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    const std::string program = BuildFile("picchio").string();
    const std::string model = DemoModel().string();
    const std::string ids = (folder / "ids").string();
    execl(program.c_str(), "picchio", "run", model.c_str(), "-p", "Once upon a time",
          "--ignore-eos", "--ids-out", ids.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pipe_ends[1]);
  std::string out(1, '\0');
  ASSERT_EQ(read(pipe_ends[0], out.data(), 1), 1);  // It is generating.
  ASSERT_EQ(kill(child, SIGINT), 0);
  char buffer[4096];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
    out.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(out.ends_with("\n"));
  // Ids of an unfinished text would look like those of a finished one.
  EXPECT_FALSE(FileExists(folder / "ids"));
}

// `picchio run` in a process of its own, sent SIGINT once its logits file is open under its
// temporary name: from then on the signal ends the text alone. Returns the status that the process
// ended with.
int InterruptRunUnderJson(const Path& logits_folder, const Path& report_file) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen(report_file.c_str(), "w", stdout) == nullptr) _exit(127);
    const std::string program = BuildFile("picchio").string();
    const std::string model = DemoModel().string();
    const std::string logits = (logits_folder / "logits.npy").string();
    execl(program.c_str(), "picchio", "run", model.c_str(), "-p", "Once upon a time", "--compute",
          "f32", "-t", "1", "--ignore-eos", "--json", "--logits-out", logits.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 60000 && std::filesystem::is_empty(logits_folder); ++i) usleep(1000);
  int status = -1;
  if (child > 0 && (kill(child, SIGINT) != 0 || waitpid(child, &status, 0) != child)) return -1;
  return status;
}

// The report then says so, and so does the exit code: files that were asked for are not there.
TEST(CliSignals, CtrlCUnderJsonStopsCleanlyToo) {
  // On a busy machine the text may have ended before the signal came: then another one.
  for (int attempt = 0; attempt < 10; ++attempt) {
    TemporaryFolder folder;
    std::filesystem::create_directory(folder / "made");
    const int status = InterruptRunUnderJson(folder / "made", folder / "report");
    ASSERT_TRUE(WIFEXITED(status)) << status;
    ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(ReadAll(folder / "report"), "run"));
    if (WEXITSTATUS(status) == 0 && report["finish_reason"] == "context") continue;
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_EQ(report["finish_reason"], "cancelled");
    EXPECT_TRUE(std::filesystem::is_empty(folder / "made"));
    return;
  }
  FAIL() << "no run was still going when the signal came";
}

// Whoever reads the text goes away after its first byte. Were the run to go on to the end of the
// context, the ids would be written.
TEST(CliSignals, RunStopsWhenItsReaderHasGone) {
  TemporaryFolder folder;
  const std::string command = "(" + Shell(BuildFile("picchio")) + " run " + Shell(DemoModel()) +
                              " -p 'Once upon a time' --ignore-eos --ids-out " +
                              Shell(folder / "ids") + " 2> " + Shell(folder / "err") +
                              "; echo $? > " + Shell(folder / "code") + ") | head -c 1 > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadAll(folder / "code"), "1\n");
  EXPECT_EQ(WithoutNotes(WithoutProgress(ReadAll(folder / "err"))),
            "picchio run: cannot write to standard output: Broken pipe\n");
  EXPECT_FALSE(FileExists(folder / "ids"));
}

// Killed at random moments, from the beginning to past the end: the outputs are what they were, or
// whole. PICCHIO_KILLS=50 is for a longer run by hand.
TEST(CliSignals, KilledAtAnyMomentARunLeavesOldOutputsOrWholeOnes) {
  TemporaryFolder folder;
  const Path logits = folder / "logits.npy";
  const Path ids = folder / "ids";
  const std::vector<std::string> arguments = {"run",
                                              DemoModel().string(),
                                              "-p",
                                              "Once upon a time",
                                              "-n",
                                              "48",
                                              "--ignore-eos",
                                              "--temp",
                                              "0",
                                              "--logits-out",
                                              logits.string(),
                                              "--ids-out",
                                              ids.string()};
  ASSERT_EQ(ChildProcess(arguments).Wait(), 0);
  const std::string whole_logits = ReadAll(logits);
  const std::string whole_ids = ReadAll(ids);
  ASSERT_EQ(std::count(whole_ids.begin(), whole_ids.end(), '\n'), 48);

  bool was_there = false;
  const auto prepare = [&](int attempt) {
    was_there = attempt % 2 == 0;
    for (const Path& output : {logits, ids}) {
      if (was_there) WriteAll(output, "old");
      if (!was_there) std::filesystem::remove(output);
    }
  };
  EXPECT_TRUE(KillAtRandomMoments(arguments, KillsWanted(8), 20250411, prepare, [&] {
    for (const auto& [output, whole] :
         {std::pair(&logits, &whole_logits), std::pair(&ids, &whole_ids)}) {
      ASSERT_TRUE(SomethingExists(*output) || !was_there) << *output << " has gone";
      if (!SomethingExists(*output)) continue;
      const std::string found = ReadAll(*output);
      ASSERT_TRUE(found == *whole || (was_there && found == "old")) << *output << " is in between";
    }
  }));
  // What a kill leaves under a temporary name is in nobody's way.
  ChildProcess last(arguments);
  ASSERT_EQ(last.Wait(), 0) << last.err();
  EXPECT_EQ(ReadAll(logits), whole_logits);
  EXPECT_EQ(ReadAll(ids), whole_ids);
}

}  // namespace
}  // namespace picchio
