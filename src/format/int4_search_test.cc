#include "format/int4_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

using Group = std::array<float, kInt4Group>;

// The least squared error that any scale and any codes reach, exactly: as 1 / scale grows from 0,
// the best codes change only where some |w| / scale passes a half; between such places they are
// fixed, and the best scale for them leaves sum(w^2) - sum(w q)^2 / sum(q^2).
double LeastError(const Group& w) {
  double squares = 0;
  for (const float x : w) squares += static_cast<double>(x) * x;
  double gain = 0;
  for (const double sign : {1.0, -1.0}) {
    struct Step {
      double inverse_scale;
      double dot;
      double squares;
    };
    std::vector<Step> steps;
    for (const float x : w) {
      const double v = sign * x;
      const int last = v > 0 ? 7 : 8;
      for (int k = 1; k <= last && v != 0; ++k) {
        steps.push_back({(k - 0.5) / std::abs(v), std::abs(v), 2.0 * k - 1});
      }
    }
    std::sort(steps.begin(), steps.end(),
              [](const Step& a, const Step& b) { return a.inverse_scale < b.inverse_scale; });
    double dot = 0;
    double codes = 0;
    for (const Step& step : steps) {
      dot += step.dot;
      codes += step.squares;
      gain = std::max(gain, dot * dot / codes);
    }
  }
  return squares - gain;
}

double ErrorWith(const Group& w, double scale) {
  double error = 0;
  for (const float x : w) {
    const double lost = x - scale * std::clamp(std::nearbyint(x / scale), -8.0, 7.0);
    error += lost * lost;
  }
  return error;
}

float MaxAbs(const Group& w) {
  float max = 0;
  for (const float x : w) max = std::max(max, std::abs(x));
  return max;
}

TEST(Int4Search, ComesWithinAPercentOfTheLeastError) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const auto even = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
  constexpr std::array<float, 8> kE2M1 = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const auto mxfp4 = [&] { return kE2M1[random() % 8] * (random() % 2 == 0 ? 1.0F : -1.0F); };
  for (const int kind : {0, 1, 2, 3, 4}) {
    double found = 0;
    double least = 0;
    double absmax = 0;
    for (int n = 0; n < 400; ++n) {
      Group w;
      for (float& x : w) {
        switch (kind) {
          case 0:
            x = normal(random);
            break;
          case 1:
            x = normal(random) * std::exp(0.5F * normal(random));
            break;
          case 2:
            x = normal(random) * std::exp(normal(random));
            break;
          case 3:
            x = even();
            break;
          default:
            x = mxfp4();
            break;
        }
      }
      if (n % 4 == 3) std::fill(w.begin() + 20, w.end(), 0.0F);  // A short group.
      found += ErrorWith(w, FindInt4Scale(w, MaxAbs(w)));
      least += LeastError(w);
      absmax += ErrorWith(w, MaxAbs(w) / 7);
    }
    EXPECT_LE(found, 1.01 * least) << kind;
    EXPECT_GE(found, least * (1 - 1e-6)) << kind;
    EXPECT_LT(found, 0.9 * absmax) << kind;
  }
}

TEST(Int4Search, UsesTheSpareNegativeCode) {
  // 8 can only be said as -8 with a negative scale; all else follows exactly.
  Group w{};
  for (size_t i = 0; i < 16; ++i) w[i] = static_cast<float>(static_cast<int>(i) - 7);  // -7 .. 8
  EXPECT_EQ(FindInt4Scale(w, 8), -1.0F);
  for (float& x : w) x = -x;
  EXPECT_EQ(FindInt4Scale(w, 8), 1.0F);
}

TEST(Int4Search, HoldsAtTheEndsOfItsRange) {
  for (const float factor : {0x1p-97F, 0x1p97F}) {
    Group w{};
    for (size_t i = 0; i < 16; ++i) w[i] = factor * static_cast<float>(static_cast<int>(i) - 8);
    EXPECT_EQ(FindInt4Scale(w, 8 * factor), factor);
  }
}

}  // namespace
}  // namespace picchio
