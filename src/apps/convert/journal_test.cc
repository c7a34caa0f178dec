#include "apps/convert/journal.h"

#include "support/test_support.h"

namespace picchio {
namespace {

const Journal::Entry kEntry{Sha256Of("a tensor"), {0.125, 1.0 / 3}};

TEST(Journal, RemembersWhatWasRecorded) {
  TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(Journal journal, Journal::Open(folder / "j", "f"));
    EXPECT_TRUE(journal.entries().empty());
    ASSERT_OK(journal.Record("w \"quoted\"\n", kEntry));
  }
  ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "j", "f"));
  ASSERT_EQ(journal.entries().size(), 1u);
  const Journal::Entry& entry = journal.entries().at("w \"quoted\"\n");
  EXPECT_EQ(entry.sha256, kEntry.sha256);
  EXPECT_EQ(entry.error.squared_error, kEntry.error.squared_error);
  EXPECT_EQ(entry.error.squared_sum, kEntry.error.squared_sum);
}

TEST(Journal, AnotherConversionsIsLeftAsItIs) {
  TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(Journal journal, Journal::Open(folder / "j", "one"));
    ASSERT_OK(journal.Record("w", kEntry));
  }
  EXPECT_THAT(Journal::Open(folder / "j", "two"),
              Fails(Code::kInvalidArgument, "an unfinished conversion of another checkpoint"));
  ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "j", "one"));
  EXPECT_EQ(journal.entries().size(), 1U);
}

TEST(Journal, ACutFirstLineStartsAfresh) {
  TemporaryFolder folder;
  WriteAll(folder / "j", R"({"picchio_conversion":"tw)");
  ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "j", "one"));
  EXPECT_TRUE(journal.entries().empty());
}

TEST(Journal, IsLockedWhileOpen) {
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "j", "f"));
  EXPECT_THAT(Journal::Open(folder / "j", "f"), Fails(Code::kUnavailable, "another conversion"));
}

// A crash may leave any prefix of the file: every one opens, keeps its whole lines, and goes on.
TEST(Journal, EveryTruncationIsSurvived) {
  TemporaryFolder folder;
  size_t one_line = 0;
  {
    ASSERT_OK_AND_ASSIGN(Journal journal, Journal::Open(folder / "j", "f"));
    ASSERT_OK(journal.Record("a", kEntry));
    one_line = ReadAll(folder / "j").size();
    ASSERT_OK(journal.Record("b", kEntry));
  }
  const std::string whole = ReadAll(folder / "j");
  for (size_t length = 0; length < whole.size(); ++length) {
    WriteAll(folder / "cut", whole.substr(0, length));
    {
      ASSERT_OK_AND_ASSIGN(Journal journal, Journal::Open(folder / "cut", "f"));
      EXPECT_EQ(journal.entries().size(), length >= one_line ? 1u : 0u) << length;
      ASSERT_OK(journal.Record("c", kEntry));
    }
    ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "cut", "f"));
    EXPECT_TRUE(journal.entries().contains("c")) << length;
  }
}

TEST(Journal, GarbageAfterGoodLinesIsDropped) {
  TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(Journal journal, Journal::Open(folder / "j", "f"));
    ASSERT_OK(journal.Record("a", kEntry));
  }
  for (const char* garbage :
       {"{}\n", "[]\n", "{\"tensor\": 1}\n", "{\"tensor\": \"x\", \"sha256\": \"zz\"}\n",
        "{\"tensor\": \"x\", \"sha256\": \"zz\", \"error\": [0, 0]}\n", "\xFF\xFE\n"}) {
    WriteAll(folder / "k", ReadAll(folder / "j") + garbage);
    ASSERT_OK_AND_ASSIGN(const Journal journal, Journal::Open(folder / "k", "f"));
    EXPECT_EQ(journal.entries().size(), 1u) << garbage;
  }
}

}  // namespace
}  // namespace picchio
