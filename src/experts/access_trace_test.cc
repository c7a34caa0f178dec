#include "experts/access_trace.h"

#include "support/test_support.h"

namespace picchio {
namespace {

constexpr std::string_view kFirstLine =
    "picchio-trace 1 layers 3 experts 16 top_k 2 records 48 record_bytes 4096\n";

TEST(AccessTrace, WritesWhatItReads) {
  TemporaryFolder folder;
  const TraceHeader header{.num_layers = 3,
                           .num_experts = 16,
                           .experts_per_token = 2,
                           .num_records = 48,
                           .record_bytes = 4096};
  ASSERT_OK_AND_ASSIGN(TraceWriter writer, TraceWriter::Create(folder / "t", header));
  writer.Add(0, std::vector<int32_t>{3, 15});
  writer.Add(2, std::vector<int32_t>{0});
  writer.Add(0, std::vector<int32_t>{});
  EXPECT_FALSE(FileExists(folder / "t"));
  ASSERT_OK(writer.Finish());
  std::string expected(kFirstLine);
  expected += "0 3 15\n2 0\n0\n";
  EXPECT_EQ(ReadAll(folder / "t"), expected);

  ASSERT_OK_AND_ASSIGN(const AccessTrace trace, LoadTrace(folder / "t"));
  EXPECT_EQ(trace.header, header);
  EXPECT_EQ(trace.num_passes(), 2u);
  EXPECT_EQ(trace.num_demands(), 3u);
  EXPECT_EQ(SerializeTrace(trace), ReadAll(folder / "t"));
}

TEST(AccessTrace, ATraceOfManyListsIsWrittenInPieces) {
  TemporaryFolder folder;
  AccessTrace trace;
  trace.header = {.num_layers = 2,
                  .num_experts = 1000,
                  .experts_per_token = 8,
                  .num_records = 2000,
                  .record_bytes = 1};
  ASSERT_OK_AND_ASSIGN(TraceWriter writer, TraceWriter::Create(folder / "t", trace.header));
  for (int i = 0; i < 60000; ++i) {
    const AccessTrace::List& list = trace.lists.emplace_back(
        AccessTrace::List{.layer = i % 2, .experts = {i % 1000, 999, i * 7 % 1000, 100, 200, 300}});
    writer.Add(list.layer, list.experts);
  }
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const AccessTrace read, LoadTrace(folder / "t"));
  EXPECT_TRUE(read.lists == trace.lists);
}

TEST(AccessTrace, SaysWhereATextIsWrong) {
  const auto parse = [](const std::string& text) { return ParseTrace(text, "t"); };
  const std::string first(kFirstLine);
  EXPECT_THAT(parse(""), Fails(Code::kCorrupt, "t is no trace"));
  EXPECT_THAT(parse("garbage\n"), Fails(Code::kCorrupt, "t is no trace"));
  EXPECT_THAT(parse("picchio-trace 2 layers 3\n"), Fails(Code::kUnsupported, "version \"2\""));
  EXPECT_THAT(parse("picchio-trace 1 layers x\n"),
              Fails(Code::kCorrupt, "line 1: found \"layers\" \"x\""));
  EXPECT_THAT(parse("picchio-trace 1 layers 0 experts 1 top_k 1 records 1 record_bytes 1\n"),
              Fails(Code::kCorrupt, "1 to 16777216"));
  EXPECT_THAT(parse("picchio-trace 1 layers 2 experts 2 top_k 1 records 5 record_bytes 1\n"),
              Fails(Code::kCorrupt, "5 records, more than 2 layers of 2"));
  EXPECT_THAT(parse("picchio-trace 1 layers 2 experts 2 top_k 1 records 4 record_bytes 1 x\n"),
              Fails(Code::kCorrupt, "after the last field"));
  EXPECT_THAT(parse(first + "0 1\n1 2 16\n"),
              Fails(Code::kCorrupt, "line 3: expert \"16\", expected 0 to 15"));
  EXPECT_THAT(parse(first + "3 1\n"), Fails(Code::kCorrupt, "line 2: layer \"3\""));
  EXPECT_THAT(parse(first + "0 -1\n"), Fails(Code::kCorrupt, "expert \"-1\""));
  EXPECT_THAT(parse(first + "0  1\n"), Fails(Code::kCorrupt, "expert \"\""));
  EXPECT_THAT(parse(first + "\n"), Fails(Code::kCorrupt, "layer \"\""));
  EXPECT_THAT(parse(first + "0 1\n1 2"), Fails(Code::kCorrupt, "line 3: cut short"));
  EXPECT_OK(parse(first));
}

}  // namespace
}  // namespace picchio
