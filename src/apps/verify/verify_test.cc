#include "apps/verify/verify.h"

#include <algorithm>
#include <random>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/convert.h"
#include "format/manifest.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// A converted model with everything that one can have: INT4 experts, INT8 head, companions.
class VerifyModelTest : public testing::Test {
 protected:
  void SetUp() override {
    EditableCheckpoint::Load(FixtureCheckpoint("qwen3_moe_long")).Write(folder_ / "in");
    WriteAll(folder_ / "in" / "chat_template.jinja", "{{ messages }}\n");
    ASSERT_OK(Convert(folder_ / "in", model(), {}, 2, kGoOn));
    ASSERT_OK(Verify());
  }

  Path model() const { return folder_ / "model"; }
  Result<VerifyReport> Verify() const { return VerifyModel(model(), 1, kGoOn); }

  TemporaryFolder folder_;
};

// One changed bit is found wherever it is: at the beginning and end of every file, and at random
// places in between.
TEST_F(VerifyModelTest, FindsAFlippedBitAnywhere) {
  std::mt19937 random(1);
  ASSERT_OK_AND_ASSIGN(const auto names, ListFiles(model()));
  EXPECT_GE(names.size(), 5u);
  for (const std::string& name : names) {
    const std::string whole = ReadAll(model() / name);
    std::vector<size_t> places = {0, 7, 8, 9, whole.size() / 2, whole.size() - 1};
    for (int i = 0; i < 100; ++i) places.push_back(random() % whole.size());
    for (const size_t place : places) {
      if (place >= whole.size()) continue;
      std::string spoilt = whole;
      spoilt[place] = static_cast<char>(spoilt[place] ^ (1 << (random() % 8)));
      WriteAll(model() / name, spoilt);
      EXPECT_FALSE(Verify().has_value()) << name << " byte " << place;
    }
    WriteAll(model() / name, whole);
  }
  EXPECT_OK(Verify());
}

TEST_F(VerifyModelTest, FindsEveryWrongLength) {
  ASSERT_OK_AND_ASSIGN(const auto names, ListFiles(model()));
  for (const std::string& name : names) {
    const std::string whole = ReadAll(model() / name);
    for (const std::string& other :
         {whole.substr(0, whole.size() - 1), whole + '\0', std::string()}) {
      WriteAll(model() / name, other);
      EXPECT_FALSE(Verify().has_value()) << name << " with " << other.size() << " bytes";
    }
    std::filesystem::remove(model() / name);
    EXPECT_FALSE(Verify().has_value()) << name << " removed";
    WriteAll(model() / name, whole);
  }
}

TEST_F(VerifyModelTest, NamesTheFirstFaultAndCountsTheOthers) {
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, LoadManifest(model()));
  ASSERT_OK_AND_ASSIGN(
      const TensorDirectory tensors,
      TensorDirectory::OpenFiles(model(), std::vector<std::string>{"dense.safetensors"}));
  const TensorEntry* norm = tensors.Find("model.norm.weight");
  ASSERT_NE(norm, nullptr);
  std::string dense = ReadAll(model() / "dense.safetensors");
  dense[norm->offset] ^= 1;
  WriteAll(model() / "dense.safetensors", dense);
  EXPECT_THAT(Verify(), Fails(Code::kCorrupt, "tensor \"model.norm.weight\" in dense.safetensors"));
  const TensorEntry* embedding = tensors.Find("model.embed_tokens.weight");
  dense[embedding->offset + 5] ^= 1;
  WriteAll(model() / "dense.safetensors", dense);
  EXPECT_THAT(Verify(), Fails(Code::kCorrupt, "tensor \"model.embed_tokens.weight\""));
  EXPECT_THAT(Verify(), Fails(Code::kCorrupt, "1 more"));
}

// What the manifest does not list is no part of the model: it is named, and no fault.
TEST_F(VerifyModelTest, NamesWhatIsNotListed) {
  ASSERT_OK_AND_ASSIGN(const VerifyReport clean, Verify());
  EXPECT_TRUE(clean.unlisted.empty());
  WriteAll(model() / "experts-00099.safetensors", "x");
  WriteAll(model() / "conversion.journal", "");
  WriteAll(model() / "expert-uses.txt", "");  // A run's, which changes with every run.
  ASSERT_OK_AND_ASSIGN(const VerifyReport report, Verify());
  EXPECT_THAT(report.unlisted,
              testing::ElementsAre("conversion.journal", "experts-00099.safetensors"));
  EXPECT_EQ(report.num_files, clean.num_files);
}

TEST_F(VerifyModelTest, SaysWhatAFileIsInstead) {
  ASSERT_OK_AND_ASSIGN(const auto names, ListFiles(model()));
  for (const std::string& name : names) {
    const std::string whole = ReadAll(model() / name);
    WriteAll(model() / name,
             "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
    EXPECT_THAT(Verify(), Fails(Code::kUnsupported, "git lfs pull")) << name;
    WriteAll(model() / name, "<!DOCTYPE html>\n<html><body>Sign in</body></html>\n");
    EXPECT_THAT(Verify(), Fails(Code::kUnsupported, "web page")) << name;
    std::filesystem::remove(model() / name);
    std::filesystem::create_directory(model() / name);
    EXPECT_THAT(Verify(), Fails(Code::kInvalidArgument, "is a folder, not a regular file")) << name;
    std::filesystem::remove(model() / name);
    WriteAll(model() / name, whole);
  }
  EXPECT_OK(Verify());
}

TEST_F(VerifyModelTest, SaysWhatAFolderIsInstead) {
  EXPECT_THAT(VerifyModel(folder_ / "in", 1, kGoOn), Fails(Code::kNotFound, "picchio convert"));
  EXPECT_THAT(VerifyModel(folder_ / "none", 1, kGoOn), Fails(Code::kNotFound, "not a folder"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(VerifyModel(folder_ / "empty", 1, kGoOn),
              Fails(Code::kNotFound, "not a model folder"));
  std::atomic<bool> stop{true};
  EXPECT_THAT(VerifyModel(model(), 1, stop), Fails(Code::kCancelled, "stopped"));
}

}  // namespace
}  // namespace picchio
