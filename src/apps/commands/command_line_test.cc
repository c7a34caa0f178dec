#include "apps/commands/command_line.h"

#include "support/test_support.h"

namespace picchio {
namespace {

// What a command line with one command, "work", makes of its arguments.
class CommandLineTest : public testing::Test {
 protected:
  int Run(std::vector<std::string> arguments) {
    CommandLine line("tool", "A tool.", "tool 1");
    Command work = line.commands().Sub("work", "Works.");
    work.Option("INPUT", input_, "What to work on").Required();
    work.Option("-n,--number", number_, "A number").Check(WholeNumberFrom(1, 9));
    work.Option("--mode", mode_, "How").OneOf({"slow", "fast"});
    const Flag one = work.Option("--word", words_, "A word").OneValueEach();
    work.Switch("--json", json_, "As JSON").Excludes(one);
    work.Run([&] {
      ++runs_;
      word_given_ = one.given();
      return result_;
    });
    arguments.insert(arguments.begin(), "tool");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return line.Run(static_cast<int>(argv.size()), argv.data());
  }

  std::string input_;
  int number_ = 5;
  std::string mode_ = "slow";
  std::vector<std::string> words_;
  bool json_ = false;
  int runs_ = 0;
  bool word_given_ = false;
  Status result_ = Status::Ok();
};

TEST_F(CommandLineTest, BindsFlagsAndRunsTheCommand) {
  EXPECT_EQ(Run({"work", "in", "-n", "3", "--mode", "fast", "--word", "a", "--word", "b"}), 0);
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(input_, "in");
  EXPECT_EQ(number_, 3);
  EXPECT_EQ(mode_, "fast");
  EXPECT_THAT(words_, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(word_given_);
}

TEST_F(CommandLineTest, TheLastOfAFlagCounts) {
  EXPECT_EQ(Run({"work", "in", "-n", "3", "-n", "4"}), 0);
  EXPECT_EQ(number_, 4);
  EXPECT_FALSE(word_given_);
}

TEST_F(CommandLineTest, WrongUsageIsTwoAndRunsNothing) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {"play"},
                                             {"work"},
                                             {"work", "in", "-n", "10"},
                                             {"work", "in", "-n", "3x"},
                                             {"work", "in", "--mode", "medium"},
                                             {"work", "in", "--json", "--word", "a"},
                                             {"work", "in", "--unknown"}}) {
    EXPECT_EQ(Run(wrong), 2);
  }
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, AFailureIsOne) {
  result_ = Status(Code::kIoError, "no such luck");
  EXPECT_EQ(Run({"work", "in"}), 1);
}

}  // namespace
}  // namespace picchio
