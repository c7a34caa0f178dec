#include "experts/memory_expert_source.h"

#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(MemoryExpertSourceTest, RefusesRecordsOfAnotherSize) {
  MemoryExpertSource::Records records;
  records[{3, 4}] = std::vector<std::byte>(5);
  EXPECT_THAT(
      MemoryExpertSource::Create(TestLayout(), std::move(records)),
      Fails(Code::kInvalidArgument, "layer 3 expert 4: a record of 5 bytes, the layout has"));
}

TEST(MemoryExpertSourceTest, RefusesToHoldNoReads) {
  EXPECT_THAT(MemoryExpertSource::Create(TestLayout(), {}, 0),
              Fails(Code::kInvalidArgument, "at least one read"));
}

TEST(MemoryExpertSourceTest, ServesACutInTwoParts) {
  const ExpertRecordLayout layout = TestLayout();
  const auto source = TestMemorySource(layout, 0, 1, 1);
  std::vector<std::byte> memory(source->slot_bytes(), std::byte{0x11});
  const uint64_t cut_bytes = layout.down.offset;
  const ReadRequest request{.slot = {.bytes = memory.size(), .data = memory.data()},
                            .cut_bytes = cut_bytes};
  ASSERT_EQ(source->Submit({&request, 1}), 1u);
  Completion completion;
  ASSERT_EQ(source->Reap({&completion, 1}, kForever), 1u);
  EXPECT_FALSE(completion.last);
  EXPECT_EQ(completion.ready_bytes, cut_bytes);
  const std::vector<std::byte> record = TestRecord({0, 0}, layout);
  EXPECT_TRUE(std::equal(record.begin(), record.begin() + static_cast<ptrdiff_t>(cut_bytes),
                         memory.begin()));
  EXPECT_EQ(memory.back(), std::byte{0x11});
  ASSERT_EQ(source->Reap({&completion, 1}, kForever), 1u);
  EXPECT_TRUE(completion.last);
  EXPECT_EQ(memory, record);
}

}  // namespace
}  // namespace picchio
