#include "base/crc32c.h"

#include <random>
#include <string>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

struct Vector {
  const char* name;
  std::vector<uint8_t> bytes;
  uint32_t crc;
};

std::vector<uint8_t> Counting(int from, int step) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<uint8_t>(from + step * i));
  return bytes;
}

// RFC 3720 appendix B.4, whose bytes are in the order of transmission; and the check value of the
// catalogue of parametrised CRC algorithms (CRC-32/ISCSI).
std::vector<Vector> Published() {
  return {{"zeros", std::vector<uint8_t>(32, 0), 0x8a9136aa},
          {"ones", std::vector<uint8_t>(32, 0xff), 0x62a8ab43},
          {"ascending", Counting(0, 1), 0x46dd794e},
          {"descending", Counting(31, -1), 0x113fdb5c},
          {"read (10) command",
           {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
            0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00},
           0xd9963a56},
          {"check", {'1', '2', '3', '4', '5', '6', '7', '8', '9'}, 0xe3069283},
          {"nothing", {}, 0}};
}

// Bit by bit, from the definition.
uint32_t BitwiseCrc(std::span<const std::byte> bytes) {
  uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~state;
}

TEST(Crc32c, MatchesPublishedVectors) {
  for (const Vector& vector : Published()) {
    const auto bytes = std::as_bytes(std::span(vector.bytes));
    EXPECT_EQ(Crc32c(bytes), vector.crc) << vector.name;
    for (const Crc32cMethod& method : UsableCrc32cMethods()) {
      EXPECT_EQ(method.compute(bytes, 0), vector.crc) << vector.name << " by " << method.name;
    }
  }
}

TEST(Crc32c, EveryMethodIsTheDefinitionAtAnyLengthAddressAndCut) {
  std::mt19937 random(1);
  std::vector<std::byte> memory(20000);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  for (const Crc32cMethod& method : UsableCrc32cMethods()) {
    for (const size_t size : {1, 7, 8, 9, 3071, 3072, 3073, 6144, 9300, 19000}) {
      const auto bytes = std::span(memory).subspan(random() % 16, size);
      const uint32_t expected = BitwiseCrc(bytes);
      EXPECT_EQ(method.compute(bytes, 0), expected) << method.name << " " << size;
      const size_t cut = random() % (size + 1);
      EXPECT_EQ(method.compute(bytes.subspan(cut), method.compute(bytes.first(cut), 0)), expected)
          << method.name << " " << size << " cut at " << cut;
    }
  }
}

#if defined(__x86_64__)
TEST(Crc32c, TakesTheInstructionWhereThereIsOne) {
  if (!__builtin_cpu_supports("sse4.2")) GTEST_SKIP() << "no SSE4.2";
  EXPECT_EQ(UsableCrc32cMethods().back().name, "instruction");
}
#endif

}  // namespace
}  // namespace picchio
