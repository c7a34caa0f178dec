#include "format/npy.h"

#include <numeric>

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;

// A file with this header text and `data_bytes` bytes of data.
std::string FileWith(std::string_view header, size_t data_bytes = 0,
                     std::string_view version = {"\1\0", 2}) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  return bytes + std::string(data_bytes, '\0');
}

Result<NpyArray> Read(std::string_view bytes) {
  return NpyArray::Read(MemoryFile("a.npy", std::as_bytes(std::span(bytes))));
}

TEST(Npy, ReadsWhatNumPyWrote) {
  // Values of the fixture's documentation: prompts are listed in its meta.json.
  ASSERT_OK_AND_ASSIGN(
      const NpyArray ids,
      NpyArray::Load(TestData("fixtures/qwen3_moe_tiny_dense/golden/p24.ids.npy")));
  EXPECT_THAT(ids.shape(), ElementsAre(24));
  ASSERT_OK_AND_ASSIGN(const auto values, ids.Values<int32_t>());
  EXPECT_THAT(values.first(4), ElementsAre(492, 3, 330, 498));
  EXPECT_EQ(values[23], 385);

  ASSERT_OK_AND_ASSIGN(
      const NpyArray matrix,
      NpyArray::Load(TestData("fixtures/gpt_oss_tiny/golden/mxfp4_layer0_expert1_gate_up.npy")));
  EXPECT_THAT(matrix.shape(), ElementsAre(256, 128));
  ASSERT_OK_AND_ASSIGN(const auto floats, matrix.Values<float>());
  EXPECT_EQ(floats[0], 0.0625F);
  EXPECT_EQ(floats[3], -0.0625F);
}

TEST(Npy, ReadsEveryTypeAndShape) {
  const struct {
    const char* descr;
    NpyType type;
    size_t bytes;
  } kCases[] = {{"<f4", NpyType::kF32, 4}, {"<f8", NpyType::kF64, 8}, {"|i1", NpyType::kI8, 1},
                {"|u1", NpyType::kU8, 1},  {"<u2", NpyType::kU16, 2}, {"<i4", NpyType::kI32, 4},
                {"<u4", NpyType::kU32, 4}, {"<i8", NpyType::kI64, 8}};
  for (const auto& c : kCases) {
    const std::string header =
        fmt::format("{{\"shape\": (3,2), 'descr':'{}','fortran_order' : False}}\n", c.descr);
    ASSERT_OK_AND_ASSIGN(const NpyArray array, Read(FileWith(header, 6 * c.bytes)));
    EXPECT_EQ(array.type(), c.type);
    EXPECT_EQ(NpyTypeName(array.type()), c.descr);
    EXPECT_THAT(array.shape(), ElementsAre(3, 2));
  }
  ASSERT_OK_AND_ASSIGN(const NpyArray scalar,
                       Read(FileWith("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", 1)));
  EXPECT_TRUE(scalar.shape().empty());
  ASSERT_OK_AND_ASSIGN(
      const NpyArray empty,
      Read(FileWith("{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }", 0)));
  ASSERT_OK_AND_ASSIGN(const auto none, empty.Values<double>());
  EXPECT_TRUE(none.empty());
}

TEST(Npy, RefusesTheWrongType) {
  ASSERT_OK_AND_ASSIGN(
      const NpyArray array,
      Read(FileWith("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4)));
  EXPECT_THAT(array.Values<int32_t>(),
              Fails(Code::kInvalidArgument, "a.npy: has elements of <f4, expected <i4"));
  EXPECT_OK(array.Values<float>());
}

TEST(Npy, RefusesLies) {
  const auto header = [](std::string_view shape) {
    return fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape);
  };
  EXPECT_THAT(Read("\x93NUMPY"), Fails(Code::kCorrupt, "too few"));
  EXPECT_THAT(Read("GGUF123456"), Fails(Code::kCorrupt, "magic"));
  EXPECT_THAT(Read(FileWith(header("1,"), 4, "\2\1")), Fails(Code::kUnsupported, "version 2.1"));
  EXPECT_THAT(Read(FileWith(header("1,"), 4).substr(0, 40)), Fails(Code::kCorrupt, "does not fit"));
  EXPECT_THAT(Read(FileWith(header("2,"), 4)), Fails(Code::kCorrupt, "has 4 bytes of data"));
  EXPECT_THAT(Read(FileWith(header("1,"), 5)), Fails(Code::kCorrupt, "has 5 bytes of data"));
  // 2^62 * 4 wraps to 0.
  EXPECT_THAT(Read(FileWith(header("4611686018427387904, 4"), 0)), Fails(Code::kCorrupt, "shape"));
  EXPECT_THAT(Read(FileWith("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4)),
              Fails(Code::kUnsupported, "\">f4\""));
  EXPECT_THAT(Read(FileWith("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 4)),
              Fails(Code::kUnsupported, "Fortran"));
}

TEST(Npy, RefusesMalformedHeaders) {
  std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 33; ++i) many += "1,";
  for (const std::string& header : std::vector<std::string>{
           "", "{", "{}", "[]", "{'descr'", "{'descr':", "{'descr': 4}", "{'descr': '<f4",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False}", many + ")}"}) {
    EXPECT_THAT(Read(FileWith(header, 4)), Fails(Code::kCorrupt, "malformed")) << header;
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  // The fixture's own file was written by NumPy: same values, same bytes.
  const Path path = TestData("fixtures/qwen3_moe_tiny_dense/golden/p24.orig.logits.npy");
  ASSERT_OK_AND_ASSIGN(const NpyArray logits, NpyArray::Load(path));
  ASSERT_OK_AND_ASSIGN(const auto floats, logits.Values<float>());
  TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(folder / "a.npy"));
  NpyRowWriter writer(std::move(file), {logits.shape().begin() + 1, logits.shape().end()});
  ASSERT_OK(writer.Append(floats));
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(ReadAll(folder / "a.npy"), ReadAll(path));
}

TEST(Npy, StreamsRows) {
  TemporaryFolder folder;
  std::vector<float> values(5 * 6);
  std::iota(values.begin(), values.end(), 1.0F);
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(folder / "a.npy"));
    NpyRowWriter writer(std::move(file), {2, 3});
    ASSERT_OK(writer.Append(std::span(values).first(6)));
    EXPECT_FALSE(FileExists(folder / "a.npy"));
    ASSERT_OK(writer.Append(std::span(values).subspan(6)));
    ASSERT_OK(writer.Finish());
  }
  ASSERT_OK_AND_ASSIGN(const NpyArray array, NpyArray::Load(folder / "a.npy"));
  EXPECT_THAT(array.shape(), ElementsAre(5, 2, 3));
  ASSERT_OK_AND_ASSIGN(const auto read, array.Values<float>());
  EXPECT_THAT(read, testing::ElementsAreArray(values));
}

}  // namespace
}  // namespace picchio
