#include "format/finite.h"

#include <cstring>
#include <limits>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

template <typename Bits>
std::vector<std::byte> RawBytes(const std::vector<Bits>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(Bits));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(CheckFinite, EveryFiniteBitPatternPasses) {
  std::vector<uint16_t> bf16;
  std::vector<uint16_t> f16;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7f80) != 0x7f80) bf16.push_back(static_cast<uint16_t>(bits));
    if ((bits & 0x7c00) != 0x7c00) f16.push_back(static_cast<uint16_t>(bits));
  }
  EXPECT_OK(CheckFinite(Dtype::kBf16, RawBytes(bf16), 7, 0));
  EXPECT_OK(CheckFinite(Dtype::kF16, RawBytes(f16), 7, 0));
  const float largest = std::numeric_limits<float>::max();
  EXPECT_OK(CheckFinite(Dtype::kF32, RawBytes(std::vector<float>{0, -largest, largest}), 3, 0));
  EXPECT_OK(CheckFinite(Dtype::kF32, {}, 3, 0));
}

TEST(CheckFinite, NamesTheFirstBadElement) {
  for (const uint16_t bad : std::vector<uint16_t>{0x7f80, 0xff80, 0x7fc0, 0xffff}) {
    std::vector<uint16_t> values(10'000, 0x3f80);
    values[9'000] = bad;
    values[9'999] = bad;
    EXPECT_THAT(CheckFinite(Dtype::kBf16, RawBytes(values), 100, 5),
                Fails(Code::kCorrupt, "row 95 column 0"));
  }
  std::vector<uint16_t> half(8, 0x3c00);
  half[3] = 0xfc00;
  EXPECT_THAT(CheckFinite(Dtype::kF16, RawBytes(half), 4, 0),
              Fails(Code::kCorrupt, "row 0 column 3"));
  EXPECT_THAT(CheckFinite(Dtype::kF32, RawBytes(std::vector<float>{1, std::nanf("")}), 2, 1),
              Fails(Code::kCorrupt, "row 1 column 1"));
}

}  // namespace
}  // namespace picchio
