#include "base/aligned_buffer.h"

#include <cstdint>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(AlignedBuffer, StartsWhereAsked) {
  for (const size_t alignment : {64u, 4096u, 1u << 20}) {
    ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer, AlignedBuffer::Allocate(100, alignment));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u);
    EXPECT_EQ(buffer.as<float>().size(), 25u);
    EXPECT_EQ(buffer.bytes().size(), 100u);
  }
}

TEST(AlignedBuffer, Moves) {
  ASSERT_OK_AND_ASSIGN(AlignedBuffer a, AlignedBuffer::Allocate(10, 64));
  const std::byte* data = a.data();
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  AlignedBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 10u);
}

TEST(AlignedBuffer, AnswersWhatCannotBeHad) {
  EXPECT_THAT(AlignedBuffer::Allocate(size_t{1} << 62, 64),
              Fails(Code::kResourceExhausted, "bytes"));
  EXPECT_OK(AlignedBuffer::Allocate(0, 64));
}

}  // namespace
}  // namespace picchio
