#include "experts/use_counters.h"

#include <cstdlib>

#include "base/crc32c.h"
#include "support/test_support.h"

namespace picchio {
namespace {

const CountedModel kModel{
    .id = "00112233445566778899aabbccddeeff", .num_layers = 3, .num_experts = 16};
const std::vector<CacheDirectory::Uses> kUses = {{{2, 15}, 100.5}, {{0, 3}, 7}, {{1, 0}, 0.001}};

std::string Summed(const std::string& text) {
  return text + fmt::format("crc32c {:08x}\n", Crc32c(std::as_bytes(std::span(text))));
}

Status Parse(const std::string& text) { return ParseUseCounters(text, kModel, "c").status(); }

TEST(UseCounters, ReadsWhatItWrites) {
  const std::string text = SerializeUseCounters(kUses, kModel);
  EXPECT_EQ(text, Summed("picchio-uses 1 model 00112233445566778899aabbccddeeff\n"
                         "2 15 100500\n0 3 7000\n1 0 1\n"));
  ASSERT_OK_AND_ASSIGN(const auto read, ParseUseCounters(text, kModel, "c"));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].key, (ExpertKey{2, 15}));
  EXPECT_EQ(read[0].uses, 100.5);
}

TEST(UseCounters, RefusesWhatIsNotItsOwn) {
  const std::string first = "picchio-uses 1 model " + kModel.id + "\n";
  EXPECT_THAT(Parse(""), Fails(Code::kCorrupt, "no counters"));
  EXPECT_THAT(Parse("picchio-uses 2 model x\n"), Fails(Code::kUnsupported, "another version"));
  EXPECT_THAT(Parse(first), Fails(Code::kCorrupt, "checksum"));
  std::string text = SerializeUseCounters(kUses, kModel);
  for (size_t i = first.size(); i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(Parse(damaged).ok()) << i;
    EXPECT_FALSE(Parse(text.substr(0, i)).ok()) << i;
  }
  EXPECT_THAT(Parse(Summed("picchio-uses 1 model ff\n")),
              Fails(Code::kInvalidArgument, "another model (\"ff\""));
  EXPECT_THAT(Parse(Summed(first + "3 0 1\n")), Fails(Code::kCorrupt, "line 2"));
  EXPECT_THAT(Parse(Summed(first + "0 16 1\n")), Fails(Code::kCorrupt, "line 2"));
  EXPECT_THAT(Parse(Summed(first + "0 1 1\n0 1\n")), Fails(Code::kCorrupt, "line 3"));
  EXPECT_THAT(Parse(Summed(first + "0 1 0\n")), Fails(Code::kCorrupt, "line 2"));
  EXPECT_THAT(Parse(Summed(first + "0 1 9999999999999999999\n")), Fails(Code::kCorrupt, "line 2"));
  EXPECT_THAT(Parse(Summed(first + "0 1 5\n0 1 5\n")),
              Fails(Code::kCorrupt, "expert 1 stands twice"));
}

TEST(UseCounters, LieBesideTheModelOrWithTheUser) {
  TemporaryFolder folder;
  ASSERT_EQ(setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1), 0);
  // A folder that cannot be written to, even by root: there is none.
  std::vector<Path> places = UseCounterPlaces(folder / "nowhere", kModel);
  ASSERT_EQ(places.size(), 2u);
  ASSERT_OK_AND_ASSIGN(auto uses, LoadUseCounters(places, kModel));
  EXPECT_TRUE(uses.empty());
  ASSERT_OK(SaveUseCounters(kUses, places, kModel));
  EXPECT_TRUE(FileExists(places[1]));
  ASSERT_OK_AND_ASSIGN(uses, LoadUseCounters(places, kModel));
  EXPECT_EQ(uses.size(), 3u);

  places = UseCounterPlaces(folder.path(), kModel);
  ASSERT_OK(SaveUseCounters(std::span(kUses).first(1), places, kModel));
  EXPECT_TRUE(FileExists(folder / kUseCountersName));
  ASSERT_OK_AND_ASSIGN(uses, LoadUseCounters(places, kModel));
  EXPECT_EQ(uses.size(), 1u);
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace picchio
