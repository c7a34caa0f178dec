#include "format/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

using Shape = std::vector<uint64_t>;

TEST(Dtype, KnowsItsFive) {
  const std::pair<const char*, size_t> kExpected[] = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"U8", 1}, {"I8", 1}};
  for (const auto& [name, bytes] : kExpected) {
    ASSERT_OK_AND_ASSIGN(const Dtype dtype, ParseDtype(name, "x"));
    EXPECT_EQ(DtypeName(dtype), name);
    EXPECT_EQ(DtypeBytes(dtype), bytes);
  }
  EXPECT_TRUE(IsFloat(Dtype::kF16));
  EXPECT_FALSE(IsFloat(Dtype::kU8));
}

TEST(Dtype, RefusesOthersByNameAndSaysWhatToDo) {
  EXPECT_THAT(ParseDtype("F8_E4M3", "tensor \"a\" of b"),
              Fails(Code::kUnsupported, "tensor \"a\" of b has dtype \"F8_E4M3\": FP8"));
  EXPECT_THAT(ParseDtype("F8_E5M2", "x"), Fails(Code::kUnsupported, "use the BF16 release"));
  EXPECT_THAT(ParseDtype("F4", "x"), Fails(Code::kUnsupported, "MXFP4"));
  EXPECT_THAT(ParseDtype("F64", "x"), Fails(Code::kUnsupported, "save the tensor as F32"));
  EXPECT_THAT(ParseDtype("I32", "x"), Fails(Code::kUnsupported, "GPTQ"));
  EXPECT_THAT(ParseDtype("BOOL", "x"), Fails(Code::kUnsupported, "supported are F32"));
  EXPECT_THAT(ParseDtype("bf16\n", "x"), Fails(Code::kUnsupported, "\"bf16\\x0a\""));
  EXPECT_THAT(ParseDtype("", "x"), Fails(Code::kUnsupported, "\"\""));
}

TEST(Dtype, SpellsShapes) {
  EXPECT_EQ(ShapeText(Shape{}), "[]");
  EXPECT_EQ(ShapeText(Shape{7}), "[7]");
  EXPECT_EQ(ShapeText(Shape{128, 64}), "[128,64]");
}

TEST(Dtype, CountsElementsWithoutWrapping) {
  ASSERT_OK_AND_ASSIGN(const uint64_t scalar, CountElements(Shape{}, Dtype::kF32));
  EXPECT_EQ(scalar, 1u);
  ASSERT_OK_AND_ASSIGN(const uint64_t matrix, CountElements(Shape{3, 5}, Dtype::kF32));
  EXPECT_EQ(matrix, 15u);
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  ASSERT_OK_AND_ASSIGN(const uint64_t empty, CountElements(Shape{kHuge, kHuge, 0}, Dtype::kF32));
  EXPECT_EQ(empty, 0u);
  // 2^32 * 2^32 wraps to 0.
  EXPECT_THAT(CountElements(Shape{uint64_t{1} << 32, uint64_t{1} << 32}, Dtype::kU8),
              Fails(Code::kCorrupt, "more elements than any file"));
  EXPECT_THAT(CountElements(Shape{uint64_t{1} << 62}, Dtype::kF32), Fails(Code::kCorrupt, "F32"));
  EXPECT_THAT(CountElements(Shape{kHuge, kHuge, 3}, Dtype::kU8), Fails(Code::kCorrupt, "elements"));
}

TEST(Dtype, WidensUnalignedRows) {
  // 1, -2, 0.5 in each type, at an odd address; a length past one block.
  const std::vector<float> kValues = {1, -2, 0.5F};
  const uint16_t kF16[] = {0x3c00, 0xc000, 0x3800};
  const uint16_t kBf16[] = {0x3f80, 0xc000, 0x3f00};
  constexpr size_t kCount = 150;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    std::vector<std::byte> bytes(1 + kCount * DtypeBytes(dtype));
    for (size_t i = 0; i < kCount; ++i) {
      const void* from = dtype == Dtype::kF32   ? static_cast<const void*>(&kValues[i % 3])
                         : dtype == Dtype::kF16 ? static_cast<const void*>(&kF16[i % 3])
                                                : static_cast<const void*>(&kBf16[i % 3]);
      std::memcpy(&bytes[1 + i * DtypeBytes(dtype)], from, DtypeBytes(dtype));
    }
    std::vector<float> wide(kCount);
    WidenToF32(dtype, std::span(bytes).subspan(1), wide);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(wide[i], kValues[i % 3]) << DtypeName(dtype);
  }
  WidenToF32(Dtype::kBf16, {}, {});
}

}  // namespace
}  // namespace picchio
