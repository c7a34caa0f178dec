#include "apps/bench/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace picchio {

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {.median = median, .least = values.front(), .greatest = values.back()};
}

double Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * count)));
  return sorted[std::min(rank, sorted.size()) - 1];
}

std::optional<Interval> MedianInterval(std::vector<double> values, double confidence) {
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  // The least value of all lies above the median with probability 1 / 2^count, and so on inwards.
  double term = std::pow(0.5, static_cast<double>(count));
  double outside = 0;  // Beyond the interval, on one side.
  std::optional<Interval> interval;
  for (size_t i = 0; 2 * i + 1 < count; ++i) {
    outside += term;
    if (1 - 2 * outside < confidence) break;
    interval = Interval{values[i], values[count - 1 - i]};
    term *= static_cast<double>(count - i) / static_cast<double>(i + 1);
  }
  return interval;
}

}  // namespace picchio
