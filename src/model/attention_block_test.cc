#include "model/attention_block.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(QueryHeadsTogetherTest, AllOfAGroupWhereThereAreRowsEnough) {
  EXPECT_EQ(QueryHeadsTogether(4, 8, 1), 8u);
  EXPECT_EQ(QueryHeadsTogether(4, 8, 4), 8u);
  EXPECT_EQ(QueryHeadsTogether(4096, 8, 64), 8u);
  EXPECT_EQ(QueryHeadsTogether(1, 1, 64), 1u);
}

// One row of a model with 4 key/value heads: 8 threads get half a group each, and so on.
TEST(QueryHeadsTogetherTest, PartsOfAGroupSoThatAllThreadsHaveWork) {
  EXPECT_EQ(QueryHeadsTogether(4, 8, 5), 4u);
  EXPECT_EQ(QueryHeadsTogether(4, 8, 8), 4u);
  EXPECT_EQ(QueryHeadsTogether(4, 8, 16), 2u);
  EXPECT_EQ(QueryHeadsTogether(4, 8, 32), 1u);
  EXPECT_EQ(QueryHeadsTogether(4, 8, 1000), 1u);
  // Only equal parts.
  EXPECT_EQ(QueryHeadsTogether(2, 6, 7), 1u);
  EXPECT_EQ(QueryHeadsTogether(2, 6, 6), 2u);
}

}  // namespace
}  // namespace picchio
