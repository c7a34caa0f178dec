#include "experts/lru_order.h"

#include <algorithm>
#include <random>

#include "support/test_support.h"

namespace picchio {
namespace {

std::vector<uint32_t> OldestFirst(const LruOrder& order) {
  std::vector<uint32_t> all;
  (void)order.OldestWhere([&all](uint32_t i) {
    all.push_back(i);
    return false;
  });
  return all;
}

TEST(LruOrderTest, BeginsAscending) {
  EXPECT_THAT(OldestFirst(LruOrder(3)), testing::ElementsAre(0, 1, 2));
}

TEST(LruOrderTest, FindsTheOldestThatIsAccepted) {
  LruOrder order(3);
  order.MakeNewest(0);
  EXPECT_EQ(order.OldestWhere([](uint32_t) { return true; }), 1u);
  EXPECT_EQ(order.OldestWhere([](uint32_t i) { return i != 1; }), 2u);
  EXPECT_EQ(order.OldestWhere([](uint32_t) { return false; }), std::nullopt);
}

TEST(LruOrderTest, BehavesLikeAVector) {
  std::mt19937 random(7);
  for (const uint32_t size : {1u, 2u, 9u}) {
    LruOrder order(size);
    std::vector<uint32_t> model = OldestFirst(order);
    for (int step = 0; step < 2000; ++step) {
      const uint32_t i = static_cast<uint32_t>(random() % size);
      model.erase(std::find(model.begin(), model.end(), i));
      if (random() % 2 == 0) {
        order.MakeNewest(i);
        model.push_back(i);
      } else {
        order.MakeOldest(i);
        model.insert(model.begin(), i);
      }
      ASSERT_EQ(OldestFirst(order), model);
    }
  }
}

}  // namespace
}  // namespace picchio
