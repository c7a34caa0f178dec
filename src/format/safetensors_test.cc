#include "format/safetensors.h"

#include <cstring>
#include <limits>

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string LengthBytes(uint64_t length) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes;
}

std::string FileBytes(std::string_view json, size_t data_bytes) {
  return LengthBytes(json.size()) + std::string(json) + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> Read(std::string_view bytes) {
  return ReadSafetensorsHeader(MemoryFile("m.safetensors", std::as_bytes(std::span(bytes))));
}

// One tensor "a" with these fields.
std::string Tensor(std::string_view fields) { return fmt::format(R"({{"a":{{{}}}}})", fields); }

TEST(Safetensors, ReadsAPublishedHeader) {
  ASSERT_OK_AND_ASSIGN(const File file,
                       File::OpenForRead(TestData(
                           "fixtures/gpt_oss_tiny/checkpoint/model-00001-of-00002.safetensors")));
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, ReadSafetensorsHeader(file));
  EXPECT_EQ(header.data_start, 4328u);
  EXPECT_EQ(header.tensors.front().offset, 4328u);
  const TensorInfo& last = header.tensors.back();
  EXPECT_EQ(last.offset + last.bytes, file.size());
  bool found = false;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.name != "model.layers.0.mlp.experts.gate_up_proj_bias") continue;
    found = true;
    EXPECT_EQ(tensor.dtype, Dtype::kBf16);
    EXPECT_THAT(tensor.shape, ElementsAre(8, 256));
    EXPECT_EQ(tensor.bytes, 4096u);
  }
  EXPECT_TRUE(found);
}

TEST(Safetensors, ReadsScalarsEmptyTensorsSpacesAndUtf8) {
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsHeader header,
      Read(FileBytes("{\"z \xc3\xa9\":{\"shape\":[],\"dtype\":\"F16\",\"data_offsets\":[0,2]},"
                     R"("__metadata__":{"format":"pt"},)"
                     R"("a":{"dtype":"I8","shape":[3],"data_offsets":[2,5]},)"
                     R"("none":{"dtype":"F32","shape":[7,0],"data_offsets":[2,2]}}   )",
                     5)));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "z \u00e9");
  EXPECT_THAT(header.tensors[0].shape, IsEmpty());
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_EQ(header.tensors[1].bytes, 0u);
  EXPECT_EQ(header.tensors[2].offset, header.data_start + 2);
  EXPECT_OK(Read(FileBytes("{}", 0)));
}

TEST(Safetensors, RefusesALyingLength) {
  EXPECT_THAT(Read(""), Fails(Code::kCorrupt, "0 bytes, too few"));
  EXPECT_THAT(Read("1234567"), Fails(Code::kCorrupt, "m.safetensors has 7 bytes"));
  EXPECT_THAT(Read(LengthBytes(0) + "{}"), Fails(Code::kCorrupt, "gives its header 0 bytes"));
  for (const uint64_t length :
       {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63, kMaxSafetensorsHeader + 1}) {
    EXPECT_THAT(Read(LengthBytes(length) + "{}"), Fails(Code::kCorrupt, "expected 1 to 104857600"));
  }
  EXPECT_THAT(Read(LengthBytes(3) + "{}"), Fails(Code::kCorrupt, "fewer than its header of 3"));
}

TEST(Safetensors, KnowsOtherKindsOfFile) {
  EXPECT_THAT(Read("GGUF\3\0\0\0\0\0\0\0"), Fails(Code::kUnsupported, "is a GGUF file"));
  EXPECT_THAT(Read("GGUF"), Fails(Code::kUnsupported, "is a GGUF file"));
  EXPECT_THAT(Read("PK\x03\x04 archive"), Fails(Code::kUnsupported, "is a PyTorch file"));
  EXPECT_THAT(Read("version https://git-lfs"), Fails(Code::kUnsupported, "git lfs pull"));
  EXPECT_THAT(Read("<!DOCTYPE html><html>"), Fails(Code::kUnsupported, "web page"));
}

// A pickle begins with the bytes of a length of 640, 66176, ... bytes. What torch.save wrote before
// it took to archives: protocol 2, its magic number as a LONG1, and a stop.
TEST(Safetensors, ALengthIsNoMagic) {
  for (const size_t header : {size_t{640}, size_t{640} + 65536, size_t{640} + 7 * 65536}) {
    std::string json = Tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])");
    json.resize(header, ' ');
    const std::string whole = FileBytes(json, 16);
    ASSERT_TRUE(whole.starts_with("\x80\x02"));
    EXPECT_OK(Read(whole)) << header;
  }
  const std::string pickle("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", 21);
  EXPECT_THAT(Read(pickle), Fails(Code::kUnsupported, "is a PyTorch file"));
  EXPECT_THAT(Read(pickle + std::string(5000, 'x')), Fails(Code::kUnsupported, "PyTorch file"));
  EXPECT_THAT(Read("\x80\x02"), Fails(Code::kUnsupported, "is a PyTorch file"));
  // No pickle has so many zeros: it is a download cut off.
  EXPECT_THAT(Read(std::string("\x80\x02\0\0\0\0\0\0{\"a\":", 14)),
              Fails(Code::kCorrupt, "incomplete"));
}

TEST(Safetensors, TellsHowMuchOfADownloadIsMissing) {
  const std::string whole =
      FileBytes(Tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), 16);
  EXPECT_OK(Read(whole));
  EXPECT_THAT(Read(std::string_view(whole).substr(0, whole.size() - 5)),
              Fails(Code::kCorrupt, "the download is incomplete: 5 bytes missing, fetch it again"));
  EXPECT_THAT(Read(std::string_view(whole).substr(0, 20)), Fails(Code::kCorrupt, "incomplete"));
  EXPECT_THAT(Read(whole + "x"), Fails(Code::kCorrupt, "has 1 bytes after its last tensor"));
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  const struct {
    const char* fields;
    Code code;
    const char* part;
  } kCases[] = {
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,15])", Code::kCorrupt, "takes 16 bytes"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[16,0])", Code::kCorrupt, "[16,0]"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[18446744073709551608,8])", Code::kCorrupt,
       "takes"},
      {R"("dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615])",
       Code::kCorrupt, "past any file's end"},
      {R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", Code::kCorrupt,
       "tensor \"a\" of m.safetensors: the shape"},
      {R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", Code::kCorrupt,
       "shape"},
      {R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,0])", Code::kCorrupt,
       "whole"},
      {R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])", Code::kCorrupt, "a negative number"},
      {R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])", Code::kCorrupt, "a negative number"},
      {R"("dtype":"F32","shape":[4.0],"data_offsets":[0,16])", Code::kCorrupt, "not a whole one"},
      {R"("dtype":"F32","shape":[4e0],"data_offsets":[0,16])", Code::kCorrupt, "not a whole one"},
      {R"("dtype":"F32","shape":["4"],"data_offsets":[0,16])", Code::kCorrupt, "a string"},
      {R"("dtype":"F32","shape":[[4]],"data_offsets":[0,16])", Code::kCorrupt, "an array"},
      {R"("dtype":"F32","shape":[null],"data_offsets":[0,16])", Code::kCorrupt, "null"},
      {R"("dtype":"F32","shape":[true],"data_offsets":[0,16])", Code::kCorrupt, "a boolean"},
      {R"("dtype":"F32","shape":4,"data_offsets":[0,16])", Code::kCorrupt, "a number"},
      {R"("dtype":"F32","shape":{},"data_offsets":[0,16])", Code::kCorrupt, "an object"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0])", Code::kCorrupt, "fewer than two"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,16,16])", Code::kCorrupt, "more than two"},
      {R"("dtype":4,"shape":[4],"data_offsets":[0,16])", Code::kCorrupt, "a number"},
      {R"("shape":[4],"data_offsets":[0,16])", Code::kCorrupt, "lacks one of"},
      {R"("dtype":"F32","data_offsets":[0,16])", Code::kCorrupt, "lacks one of"},
      {R"("dtype":"F32","shape":[4])", Code::kCorrupt, "lacks one of"},
      {R"("dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16])", Code::kCorrupt, "twice"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"crc":1)", Code::kUnsupported,
       "unknown field \"crc\""},
      {R"("dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16])", Code::kUnsupported,
       "tensor \"a\" of m.safetensors has dtype \"F8_E4M3\": FP8"},
      {R"("dtype":"Q4_K","shape":[16],"data_offsets":[0,16])", Code::kUnsupported, "\"Q4_K\""},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Read(FileBytes(Tensor(c.fields), 16)), Fails(c.code, c.part)) << c.fields;
  }
  std::string deep = R"("dtype":"U8","data_offsets":[0,1],"shape":[1)";
  for (int i = 0; i < 64; ++i) deep += ",1";
  EXPECT_THAT(Read(FileBytes(Tensor(deep + "]"), 1)),
              Fails(Code::kCorrupt, "more than 64 dimensions"));
}

TEST(Safetensors, RefusesGapsOverlapsAndDuplicates) {
  const auto two = [](std::string_view first, std::string_view second,
                      std::string_view name = "b") {
    return FileBytes(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}},)"
                                 R"("{}":{{"dtype":"U8","shape":[4],"data_offsets":[{}]}}}})",
                                 first, name, second),
                     8);
  };
  EXPECT_OK(Read(two("0,4", "4,8")));
  EXPECT_OK(Read(two("4,8", "0,4")));
  EXPECT_THAT(Read(two("0,4", "3,7")), Fails(Code::kCorrupt, "tensor \"b\" begins at byte"));
  EXPECT_THAT(Read(two("0,4", "0,4")), Fails(Code::kCorrupt, "inside the one that ends"));
  EXPECT_THAT(Read(two("0,4", "5,9")), Fails(Code::kCorrupt, "after a gap"));
  EXPECT_THAT(Read(two("1,5", "5,9")), Fails(Code::kCorrupt, "tensor \"a\" begins at byte"));
  EXPECT_THAT(Read(two("0,4", "4,8", "a")), Fails(Code::kCorrupt, "\"a\" stands twice"));
  EXPECT_THAT(Read(two("0,4", "4,8", "")), Fails(Code::kUnsupported, "empty"));
  EXPECT_THAT(Read(two("0,4", "4,8", "x\\ty")), Fails(Code::kUnsupported, "control characters"));
}

TEST(Safetensors, RefusesHostileJson) {
  EXPECT_THAT(Read(FileBytes("[]", 0)), Fails(Code::kCorrupt, "does not begin with '{'"));
  EXPECT_THAT(Read(FileBytes("\xef\xbb\xbf{}", 0)), Fails(Code::kCorrupt, "does not begin"));
  EXPECT_THAT(Read(FileBytes(" {}", 0)), Fails(Code::kCorrupt, "does not begin"));
  EXPECT_THAT(Read(FileBytes("{", 0)), Fails(Code::kCorrupt, "not valid JSON"));
  EXPECT_THAT(Read(FileBytes("{} {}", 0)), Fails(Code::kCorrupt, "not valid JSON"));
  EXPECT_THAT(Read(FileBytes("{\"a\xff\":1}", 0)), Fails(Code::kCorrupt, "not valid JSON"));
  EXPECT_THAT(Read(FileBytes(R"({"a":1})", 0)),
              Fails(Code::kCorrupt, "tensor \"a\" of m.safetensors"));
  EXPECT_THAT(Read(FileBytes(R"({"a":[)", 0)), Fails(Code::kCorrupt, "an array"));
  EXPECT_THAT(Read(FileBytes(R"({"__metadata__":1})", 0)),
              Fails(Code::kCorrupt, "__metadata__ of"));
  EXPECT_THAT(Read(FileBytes(R"({"__metadata__":{"a":1}})", 0)), Fails(Code::kCorrupt, "a number"));
  EXPECT_THAT(Read(FileBytes(R"({"__metadata__":{"a":{}}})", 0)),
              Fails(Code::kCorrupt, "an object"));
  EXPECT_THAT(Read(FileBytes(R"({"__metadata__":{},"__metadata__":{}})", 0)),
              Fails(Code::kCorrupt, "twice"));
  // A bomb of brackets stops at the first one.
  EXPECT_THAT(Read(FileBytes(R"({"a":)" + std::string(1000000, '['), 0)),
              Fails(Code::kCorrupt, "array"));
}

TEST(Safetensors, WritesByTheRules) {
  std::vector<TensorInfo> tensors = {
      {"b \"\\\u00e9", Dtype::kBf16, {2, 3}}, {"a", Dtype::kF32, {}}, {"none", Dtype::kU8, {0}}};
  ASSERT_OK_AND_ASSIGN(const std::string header, MakeSafetensorsHeader(tensors, 4096));
  EXPECT_EQ(header.size(), 4096u);
  EXPECT_EQ(header.substr(0, 8), LengthBytes(4088));
  const std::string_view json =
      R"({"b \"\\é":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
      R"("none":{"dtype":"U8","shape":[0],"data_offsets":[16,16]}})";
  EXPECT_EQ(std::string_view(header).substr(8, json.size()), json);
  EXPECT_EQ(header.find_first_not_of(' ', 8 + json.size()), std::string::npos);
  EXPECT_EQ(tensors[0].offset, 4096u);
  EXPECT_EQ(tensors[1].offset, 4108u);
  EXPECT_EQ(tensors[2].offset, 4112u);
  EXPECT_EQ(tensors[0].bytes, 12u);

  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader read, Read(header + std::string(16, 'x')));
  EXPECT_EQ(read.data_start, 4096u);
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].name, tensors[0].name);

  ASSERT_OK_AND_ASSIGN(const std::string empty, MakeSafetensorsHeader({}, 64));
  EXPECT_EQ(empty.size(), 64u);
  EXPECT_OK(Read(empty));
}

TEST(Safetensors, RefusesToWriteNonsense) {
  const auto make = [](std::vector<TensorInfo> tensors) {
    return MakeSafetensorsHeader(tensors, 8);
  };
  EXPECT_THAT(make({{"", Dtype::kU8, {1}}}), Fails(Code::kInvalidArgument, "cannot be the name"));
  EXPECT_THAT(make({{"a\n", Dtype::kU8, {1}}}), Fails(Code::kInvalidArgument, "\"a\\x0a\""));
  EXPECT_THAT(make({{"\xff", Dtype::kU8, {1}}}), Fails(Code::kInvalidArgument, "cannot be"));
  EXPECT_THAT(make({{"__metadata__", Dtype::kU8, {1}}}),
              Fails(Code::kInvalidArgument, "cannot be"));
  EXPECT_THAT(make({{"a", Dtype::kU8, {1}}, {"a", Dtype::kU8, {1}}}),
              Fails(Code::kInvalidArgument, "twice"));
  EXPECT_THAT(make({{"a", Dtype::kF32, {uint64_t{1} << 62}}}),
              Fails(Code::kInvalidArgument, "shape"));
  EXPECT_THAT(make({{"a", Dtype::kU8, {uint64_t{1} << 62}}, {"b", Dtype::kU8, {1}}}),
              Fails(Code::kInvalidArgument, "larger than any file"));
  EXPECT_THAT(make({{std::string(kMaxSafetensorsHeader, 'a'), Dtype::kU8, {1}}}),
              Fails(Code::kInvalidArgument, "need a header of"));
}

TEST(Safetensors, TakesManyTensors) {
  constexpr size_t kCount = 100000;
  std::vector<TensorInfo> tensors;
  for (size_t i = 0; i < kCount; ++i) {
    // Neither names nor offsets come in order.
    tensors.push_back({fmt::format("model.layers.{}.weight", i * 7919 % kCount), Dtype::kU8, {1}});
  }
  ASSERT_OK_AND_ASSIGN(std::string bytes, MakeSafetensorsHeader(tensors, 64));
  bytes += std::string(kCount, 'x');
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, Read(bytes));
  EXPECT_EQ(header.tensors.size(), kCount);
}

}  // namespace
}  // namespace picchio
