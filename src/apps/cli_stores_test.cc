// Where the experts come from makes no difference: one model by the command from its safetensors
// files, from stores that `picchio pack` made, from damaged and partial ones, and from the store
// alone.
#include <algorithm>

#include "apps/cli_test_support.h"
#include "apps/convert/checkpoint_test_support.h"
#include "apps/pack/record_check.h"
#include "base/json.h"

namespace picchio {
namespace {

struct StoreCase {
  const char* fixture;
  const char* experts;
  bool v2;  // Whether a store of version 2 can hold them.
};

class CliStores : public testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override {
    std::string ids;
    for (const int id : {1, 5, 9, 2, 30, 7, 11, 4, 17, 3, 8, 25}) ids += fmt::format("{}\n", id);
    WriteAll(folder_ / "ids", ids);
    Do("convert " + Shell(FixtureCheckpoint(GetParam().fixture)) + " " + Shell(model_) +
       " --keep-safetensors --experts " + GetParam().experts);
    Do("convert " + Shell(FixtureCheckpoint(GetParam().fixture)) + " " + Shell(alone_) +
       " --experts " + GetParam().experts);
    reference_ = LogitsOf(model_, "--flat 0");
    ASSERT_GT(reference_.size(), 10'000u);
  }

  static void Do(const std::string& command) {
    const Outcome outcome = Picchio(command);
    ASSERT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.err;
  }

  Outcome Run(const Path& model, const std::string& flags) const {
    return Picchio("run " + Shell(model) + " --ids " + Shell(folder_ / "ids") +
                   " -n 4 --temp 0 --ignore-eos -c 32 --json " + flags + " --logits-out " +
                   Shell(folder_ / "logits.npy"));
  }

  // The bytes of the file of logits; where experts came from goes to storage_.
  std::string LogitsOf(const Path& model, const std::string& flags) {
    const Outcome run = Run(model, flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    notes_ = run.err;
    const auto report = ParseJson(run.out, "run");
    EXPECT_OK(report);
    if (!report.has_value()) return {};
    storage_ = (*report)["stats"]["storage"];
    return ReadAll(folder_ / "logits.npy");
  }

  uint64_t Count(size_t tier, const char* what) const {
    return storage_["tiers"].at(tier).at(what);
  }

  // Flips a bit in the middle of every third record of a store, and returns how many.
  static size_t DamageAThird(const Path& store) {
    std::string bytes = ReadAll(store);
    const auto file = File::OpenForRead(store);
    EXPECT_OK(file);
    const auto index = FlatIndex::Read(*file);
    EXPECT_OK(index);
    size_t damaged = 0;
    const std::vector<RecordPlace> places = RecordsOf(*index);
    for (size_t i = 0; i < places.size(); i += 3, ++damaged) {
      const FlatEntry& entry = *index->Find(places[i].layer, places[i].expert);
      char& byte = bytes[entry.offset + entry.bytes / 2];
      byte = static_cast<char>(byte ^ 0x40);
    }
    WriteAll(store, bytes);
    return damaged;
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path alone_ = folder_ / "store alone";
  std::string reference_;
  Json storage_;
  std::string notes_;
};

INSTANTIATE_TEST_SUITE_P(Fixtures, CliStores,
                         testing::Values(StoreCase{"qwen3_moe_tiny", "int4", true},
                                         StoreCase{"gpt_oss_tiny", "int4", true},
                                         StoreCase{"gpt_oss_tiny", "mxfp4", false}),
                         [](const auto& tested) {
                           return std::string(tested.param.fixture) + "_" + tested.param.experts;
                         });

TEST_P(CliStores, PackedStoresGiveTheSameLogits) {
  // The one that convert wrote in the same pass, and the one that is all there is.
  EXPECT_TRUE(LogitsOf(model_, "") == reference_);
  EXPECT_GT(Count(0, "served"), 0u);
  EXPECT_TRUE(LogitsOf(alone_, "") == reference_);
  ASSERT_EQ(storage_["tiers"].size(), 1u);
  EXPECT_GT(Count(0, "served"), 0u);
  EXPECT_TRUE(LogitsOf(alone_, "--flat-verify --ecap 1 -t 3") == reference_);

  for (const char* version : {"v2", "v3"}) {
    const bool v2 = std::string_view(version) == "v2";
    if (v2 && !GetParam().v2) continue;
    const Path store = folder_ / version;
    const std::string from = "--flat " + Shell(store) + " ";
    const std::string pack =
        "pack " + Shell(model_) + " -o " + Shell(store) + " --format " + version;
    Do(pack + " --block-size 8192 --verify");
    for (const char* verify : {"", "--flat-verify"}) {
      EXPECT_TRUE(LogitsOf(model_, from + verify) == reference_) << version << verify;
      EXPECT_GT(Count(0, "served"), 0u);
      EXPECT_EQ(Count(0, "failed"), 0u);
      EXPECT_EQ(Count(1, "served"), 0u);
    }

    // Its first two layers only: the others come from the safetensors files.
    Do(pack + " --layers 2");
    EXPECT_TRUE(LogitsOf(model_, from) == reference_) << version;
    EXPECT_GT(Count(0, "served"), 0u);
    EXPECT_GT(Count(1, "served"), 0u);
    EXPECT_THAT(notes_, testing::HasSubstr("no such expert"));

    Do(pack);
    ASSERT_GT(DamageAThird(store), 2u);
    EXPECT_TRUE(LogitsOf(model_, from + (v2 ? "--flat-verify" : "")) == reference_) << version;
    EXPECT_GT(Count(0, "failed"), 0u);
    EXPECT_EQ(Count(1, "served"), Count(0, "failed"));
    EXPECT_EQ(std::count(notes_.begin(), notes_.end(), '\n'), 1) << notes_;
    // The damage is such that it would be seen: version 2 has no sums to find it by unless asked.
    if (v2) {
      EXPECT_FALSE(LogitsOf(model_, from) == reference_);
    }
  }
}

// Where nothing else can serve, the run stops and says what there is to be done.
TEST_P(CliStores, ADamagedStoreThatIsAllThereIsStopsTheRun) {
  const std::string err_of_whole = Run(alone_, "--flat-verify").err;
  EXPECT_EQ(err_of_whole, "");
  std::filesystem::remove(folder_ / "logits.npy");
  const Path store = alone_ / "experts.picchioflat";
  DamageAThird(store);
  const Outcome run = Run(alone_, "--flat-verify");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_FALSE(FileExists(folder_ / "logits.npy"));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex("layer [0-9]+ expert [0-9]+: .*expected .* at byte"));
  EXPECT_THAT(run.err, testing::HasSubstr("convert the checkpoint again"));
  EXPECT_EQ(run.err.find("--repair"), std::string::npos) << run.err;

  // What verify advises is what there is, too: here nothing to repair from,
  Outcome verify = Picchio("verify " + Shell(store));
  EXPECT_EQ(verify.exit_code, 1);
  EXPECT_THAT(verify.err, testing::HasSubstr("convert the checkpoint again"));
  EXPECT_EQ(verify.err.find("--repair"), std::string::npos) << verify.err;
  // there the safetensors files.
  const Path kept = model_ / "experts.picchioflat";
  DamageAThird(kept);
  verify = Picchio("verify " + Shell(kept));
  EXPECT_EQ(verify.exit_code, 1);
  EXPECT_THAT(verify.err,
              testing::HasSubstr(fmt::format("run picchio verify {} --repair --model {}",
                                             kept.string(), model_.string())));
  Do("verify " + Shell(kept) + " --repair --model " + Shell(model_));
  EXPECT_EQ(Picchio("verify " + Shell(kept)).exit_code, 0);
}

}  // namespace
}  // namespace picchio
