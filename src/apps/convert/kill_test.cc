// The conversion's promise against what really happens to processes: the built program is killed,
// runs out of room, may not write. Whatever it left, the same command ends with the same bytes.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "apps/child_process_test_support.h"
#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/conversion_test_support.h"
#include "base/json.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using std::chrono::milliseconds;

// `picchio convert IN OUT --json -t 2` in a process of its own.
class Child : public ChildProcess {
 public:
  Child(
      const Path& in, const Path& out, const std::function<void()>& prepare = [] {})
      : ChildProcess({"convert", in.string(), out.string(), "--json", "-t", "2"}, prepare) {}
};

// A fixture with its layers several times over, so that its conversion takes a while.
void WriteDeepCheckpoint(const Path& folder) {
  constexpr int kCopies = 4;
  EditableCheckpoint checkpoint = EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_tiny"));
  const int layers = Json::parse(checkpoint.config)["num_hidden_layers"];
  const std::string prefix = "model.layers.";
  const std::vector<EditableCheckpoint::Tensor> tensors = checkpoint.tensors;
  for (int copy = 1; copy < kCopies; ++copy) {
    for (const EditableCheckpoint::Tensor& tensor : tensors) {
      const std::string& name = tensor.info.name;
      if (!name.starts_with(prefix)) continue;
      const size_t dot = name.find('.', prefix.size());
      const int layer = std::stoi(name.substr(prefix.size(), dot - prefix.size()));
      EditableCheckpoint::Tensor& added = checkpoint.tensors.emplace_back(tensor);
      added.info.name = fmt::format("{}{}{}", prefix, layer + copy * layers, name.substr(dot));
    }
  }
  checkpoint.SetConfig("num_hidden_layers", layers * kCopies);
  checkpoint.Write(folder);
}

class ConvertedByAProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TemporaryFolder;
    WriteDeepCheckpoint(Checkpoint());
    const auto start = std::chrono::steady_clock::now();
    Child child(Checkpoint(), *shared_ / "whole");
    ASSERT_EQ(child.Wait(), 0) << child.err();
    duration_ = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
    whole_ = new std::map(FolderContents(*shared_ / "whole"));
  }
  static void TearDownTestSuite() {
    delete whole_;
    delete shared_;
  }

  static Path Checkpoint() { return *shared_ / "in"; }

  // Runs to the end; the outcome is the uninterrupted one to the byte. Returns the report.
  Json Finish() {
    Child child(Checkpoint(), out_);
    EXPECT_EQ(child.Wait(), 0) << child.err();
    // Not EXPECT_EQ: nobody wants to read the bytes.
    EXPECT_TRUE(FolderContents(out_) == *whole_);
    const std::string text = child.out();
    auto report = ParseJson(text, "convert");
    EXPECT_OK(report);
    return report.has_value() ? *report : Json();
  }

  // Failed as a command should: one sentence, exit 1, and nothing that looks like a model.
  void ExpectRefusal(Child& child, const char* message) {
    EXPECT_EQ(child.Wait(), 1);
    std::string err = child.err();
    EXPECT_THAT(err, testing::HasSubstr(message));
    // That the checkpoint has no tokenizer is said before the work.
    if (err.starts_with("note: ")) err.erase(0, err.find('\n') + 1);
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_EQ(child.out(), "");
    EXPECT_FALSE(FileExists(out_ / "manifest.json"));
  }

  static inline TemporaryFolder* shared_ = nullptr;
  static inline std::map<std::string, std::string>* whole_ = nullptr;
  static inline milliseconds duration_{};

  TemporaryFolder folder_;
  const Path out_ = folder_ / "out";
};

TEST_F(ConvertedByAProcess, SurvivesBeingKilledTenTimes) {
  const Path journal = out_ / "conversion.journal";
  const Path manifest = out_ / "manifest.json";
  const auto journal_bytes = [&] {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(journal, error);
    return error ? 0 : bytes;
  };
  std::mt19937 random(20240817);
  int kills = 0;
  int attempts = 0;
  for (; kills < 10 && attempts < 100; ++attempts) {
    const uintmax_t before = journal_bytes();
    Child child(Checkpoint(), out_);
    if (kills % 2 == 1) {  // Not before it has got somewhere: some tensors' lines.
      while (child.running() && journal_bytes() < before + 2000) {
        std::this_thread::sleep_for(milliseconds(1));
      }
    } else {
      std::this_thread::sleep_for(milliseconds(
          random() % static_cast<unsigned>(std::max<int64_t>(2, duration_.count() / 2))));
    }
    if (child.Kill() && !FileExists(manifest)) {
      ++kills;
      continue;
    }
    // It was faster, if only just: whole, and the next one starts anew.
    std::filesystem::remove(journal);
    ASSERT_TRUE(FolderContents(out_) == *whole_) << child.err();
    std::filesystem::remove_all(out_);
  }
  ASSERT_EQ(kills, 10) << "in " << attempts << " attempts";
  EXPECT_GT(Finish()["resumed_bytes"], 0);
}

// All is written and some files have their names, but not the manifest.
TEST_F(ConvertedByAProcess, SurvivesACrashBetweenTwoRenames) {
  // A folder in the way of the manifest ends the first run just before it.
  std::filesystem::create_directories(out_ / "manifest.json.picchio-tmp");
  {
    Child child(Checkpoint(), out_);
    ExpectRefusal(child, "manifest.json.picchio-tmp");
    // Its own journal, and so its own folder.
    EXPECT_THAT(child.err(), testing::HasSubstr("or remove that folder"));
  }
  std::filesystem::remove_all(out_ / "manifest.json.picchio-tmp");
  ASSERT_TRUE(FileExists(out_ / "conversion.journal"));
  bool odd = false;
  int renamed = 0;
  int left = 0;
  for (const auto& [name, bytes] : *whole_) {
    if (!name.ends_with(".safetensors") && !name.ends_with(".picchioflat")) continue;
    ASSERT_TRUE(FileExists(out_ / name)) << name;
    odd = !odd;
    if (odd) {
      std::filesystem::rename(out_ / name, out_ / (name + ".picchio-tmp"));
      ++renamed;
    } else {
      ++left;
    }
  }
  ASSERT_GT(renamed, 0);
  ASSERT_GT(left, 0);
  const Json report = Finish();
  EXPECT_EQ(report["resumed_bytes"], report["source_bytes"]);
}

// What another conversion has in the folder is nobody's to be told to remove.
TEST_F(ConvertedByAProcess, TheSecondOneWaitsAndRemovesNothing) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    Child first(Checkpoint(), out_);
    while (first.running() && !FileExists(out_ / "conversion.journal")) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (!first.Stop() || !FileExists(out_ / "conversion.journal")) {  // It was faster.
      first.Signal(SIGCONT);
      ASSERT_EQ(first.Wait(), 0) << first.err();
      std::filesystem::remove_all(out_);
      continue;
    }
    Child second(Checkpoint(), out_);
    EXPECT_EQ(second.Wait(), 1);
    EXPECT_THAT(second.err(), testing::HasSubstr("another conversion is writing"));
    EXPECT_THAT(second.err(), testing::Not(testing::HasSubstr("remove")));
    first.Signal(SIGCONT);
    EXPECT_EQ(first.Wait(), 0) << first.err();
    EXPECT_TRUE(FolderContents(out_) == *whole_);
    return;
  }
  FAIL() << "the first one was always done";
}

// A limit on the size of files refuses writes as a full disk does, wherever it strikes.
TEST_F(ConvertedByAProcess, AFullDiskIsASentence) {
  uintmax_t largest = 0;
  for (const auto& [name, bytes] : *whole_) largest = std::max<uintmax_t>(largest, bytes.size());
  for (const uintmax_t limit : {uintmax_t{0}, uintmax_t{1000}, largest / 2, largest - 1}) {
    Child child(Checkpoint(), out_, [limit] {
      std::signal(SIGXFSZ, SIG_IGN);  // As nobody's shell does, but disks give no signals.
      const rlimit of_files{limit, limit};
      setrlimit(RLIMIT_FSIZE, &of_files);
    });
    // The report of the child is a file too: at a limit of 0 the code has to do.
    if (limit == 0) {
      EXPECT_EQ(child.Wait(), 1);
      EXPECT_FALSE(FileExists(out_ / "manifest.json"));
    } else {
      ExpectRefusal(child, "File too large");
    }
  }
  Finish();
}

TEST_F(ConvertedByAProcess, AReadOnlyFolderIsASentence) {
  std::filesystem::create_directories(out_);
  std::filesystem::permissions(out_, std::filesystem::perms(0555));
  Child child(Checkpoint(), out_, [] {
    // Permissions do not hold root back, unless the program starts without this.
    if (geteuid() == 0 && prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0) {
      _exit(102);
    }
  });
  const int exit_code = child.Wait();
  std::filesystem::permissions(out_, std::filesystem::perms(0755));
  if (exit_code == 102) GTEST_SKIP() << "root, and capabilities cannot be dropped";
  EXPECT_EQ(exit_code, 1);
  const std::string err = child.err();
  EXPECT_THAT(err, testing::HasSubstr("Permission denied"));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_TRUE(FolderContents(out_).empty());
}

}  // namespace
}  // namespace picchio
