#include "experts/slot_arena.h"

#include "base/huge_pages.h"
#include "base/page_memory.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(SlotArenaTest, StrideIsAMultipleOf64KiBOrASmallPowerOfTwo) {
  EXPECT_EQ(SlotArena::StrideFor(1), 4096u);
  EXPECT_EQ(SlotArena::StrideFor(4096), 4096u);
  EXPECT_EQ(SlotArena::StrideFor(4097), 8192u);
  EXPECT_EQ(SlotArena::StrideFor(32_KiB), 32_KiB);
  EXPECT_EQ(SlotArena::StrideFor(32_KiB + 1), 64_KiB);
  EXPECT_EQ(SlotArena::StrideFor(64_KiB + 1), 128_KiB);
  EXPECT_EQ(SlotArena::StrideFor(2654208), 2686976u);  // 41 x 64 KiB, Qwen3-30B-A3B in INT4.
}

TEST(SlotArenaTest, SlotsDoNotOverlapAndFillTheirChunks) {
  // Three slots to a chunk, and a last chunk of one.
  ASSERT_OK_AND_ASSIGN(const SlotArena arena, SlotArena::Create(5000, 7, 3 * 8_KiB + 100));
  ASSERT_EQ(arena.chunks().size(), 3u);
  EXPECT_EQ(arena.chunks()[0].bytes, 3 * 8_KiB);
  EXPECT_EQ(arena.chunks()[2].bytes, 8_KiB);
  for (size_t i = 0; i < arena.num_slots(); ++i) {
    const Slot slot = arena.slot(i);
    const MemoryChunk& chunk = arena.chunks()[i / 3];
    EXPECT_EQ(slot.chunk_idx, i / 3);
    EXPECT_EQ(slot.chunk_idx, chunk.chunk_idx);
    EXPECT_EQ(slot.offset, i % 3 * 8_KiB);
    EXPECT_EQ(slot.bytes, 8_KiB);
    EXPECT_EQ(slot.data, chunk.data + slot.offset);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slot.data) % 4096, 0u);
  }
}

TEST(SlotArenaTest, AShortLastChunkLiesInHugePagesToo) {
  const PageMemory usual = PageMemory::Allocate(32_MiB).value();
  if (HugeBytes(usual.bytes()) < usual.size()) GTEST_SKIP() << "no huge pages to be had here";
  // Chunks of 32 MiB, and one of 3 MiB.
  ASSERT_OK_AND_ASSIGN(const SlotArena arena, SlotArena::Create(1_MiB, 35, 32_MiB));
  ASSERT_EQ(arena.chunks().size(), 2u);
  EXPECT_EQ(arena.chunks()[1].bytes, 3_MiB);
  EXPECT_EQ(arena.HugeBytes(), arena.bytes());
  for (const MemoryChunk& chunk : arena.chunks()) {
    EXPECT_EQ(HugeBytes({chunk.data, static_cast<size_t>(chunk.bytes)}), chunk.bytes);
  }
}

TEST(SlotArenaTest, AChunkHoldsAtLeastOneSlot) {
  ASSERT_OK_AND_ASSIGN(const SlotArena arena, SlotArena::Create(70000, 2, 1));
  EXPECT_EQ(arena.chunks().size(), 2u);
  EXPECT_EQ(arena.chunks()[0].bytes, 128_KiB);
}

TEST(SlotArenaTest, WhatCannotFitIsRefusedWithTheFigures) {
  EXPECT_THAT(SlotArena::Create(2654208, size_t{1} << 40, 256_MiB),
              Fails(Code::kResourceExhausted, "1099511627776 slots of 2686976 bytes do not fit"));
  EXPECT_THAT(SlotArena::Create(2654208, SIZE_MAX, 256_MiB),
              Fails(Code::kResourceExhausted, "slots of 2686976 bytes do not fit"));
  EXPECT_THAT(SlotArena::Create(1_GiB + 1, 2, 256_MiB),
              Fails(Code::kUnsupported, "larger than a chunk can be"));
  EXPECT_THAT(SlotArena::Create(UINT64_MAX, 2, 256_MiB), Fails(Code::kUnsupported, "chunk"));
}

}  // namespace
}  // namespace picchio
