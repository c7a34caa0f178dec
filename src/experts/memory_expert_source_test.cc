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

}  // namespace
}  // namespace picchio
