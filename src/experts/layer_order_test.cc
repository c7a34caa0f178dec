#include "experts/layer_order.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(LayerOrder, CountsTheLayersBetween) {
  LayerOrder order;
  const uint32_t five = order.IndexOf(5);
  EXPECT_EQ(order.LayersUntil(five, five), 0u);  // There is no other.
  const uint32_t nine = order.IndexOf(9);
  const uint32_t two = order.IndexOf(2);  // Met last, and yet the first of a pass.
  EXPECT_EQ(order.num_layers(), 3u);
  EXPECT_EQ(order.IndexOf(5), five);
  EXPECT_EQ(order.LayersUntil(five, two), 0u);
  EXPECT_EQ(order.LayersUntil(nine, two), 1u);
  EXPECT_EQ(order.LayersUntil(two, two), 2u);
  EXPECT_EQ(order.LayersUntil(two, nine), 0u);
  EXPECT_EQ(order.LayersUntil(two, five), 1u);
}

}  // namespace
}  // namespace picchio
