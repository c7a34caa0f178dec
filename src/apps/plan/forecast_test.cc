#include "apps/plan/forecast.h"

#include "support/test_support.h"

namespace picchio {
namespace {

// 10 layers of 2 experts, 1 ms each; 1 MB a record. Attention 30 ms, head 5 ms.
ForecastInput Input(double hit_rate, double bytes_per_second) {
  return {.num_moe_layers = 10,
          .experts_per_token = 2,
          .read_bytes = 1'000'000,
          .hit_rate = hit_rate,
          .bytes_per_second = bytes_per_second,
          .compute = {.attention = 0.03, .experts = 0.02, .head = 0.005}};
}

TEST(Forecast, InMemoryComputingIsAll) {
  const Forecast forecast = ForecastToken(Input(1, 1e9));
  EXPECT_DOUBLE_EQ(forecast.seconds, 0.055);
  EXPECT_EQ(forecast.wait, 0);
  EXPECT_EQ(forecast.bytes, 0);
  EXPECT_NEAR(forecast.tokens_per_second(), 1 / 0.055, 1e-9);
}

TEST(Forecast, MissesWaitForStorageButForWhatIsComputedMeanwhile) {
  // Nothing hits, 10 ms a record: a layer reads for 20 ms, of which the first expert's 1 ms hides.
  const Forecast none = ForecastToken(Input(0, 1e8));
  EXPECT_NEAR(none.wait, 10 * 0.019, 1e-12);
  EXPECT_NEAR(none.seconds, 0.055 + 0.19, 1e-12);
  EXPECT_DOUBLE_EQ(none.bytes, 20e6);
  EXPECT_NEAR(none.wait_share(), 0.19 / 0.245, 1e-12);
  // Half hits: none missing with 1/4, one (9 ms of waiting) with 1/2, both (19 ms) with 1/4.
  const Forecast half = ForecastToken(Input(0.5, 1e8));
  EXPECT_NEAR(half.wait, 10 * (0.5 * 0.009 + 0.25 * 0.019), 1e-12);
  EXPECT_DOUBLE_EQ(half.bytes, 10e6);
  // A drive as fast as computing: a single record hides behind the expert that is there.
  EXPECT_NEAR(ForecastToken(Input(0.5, 1e9)).wait, 10 * 0.25 * 0.001, 1e-12);
}

TEST(Forecast, NothingToDoTakesNoTime) {
  EXPECT_EQ(ForecastToken({}).tokens_per_second(), 0);
  EXPECT_EQ(ForecastToken({}).wait_share(), 0);
}

}  // namespace
}  // namespace picchio
