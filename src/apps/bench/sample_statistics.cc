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

}  // namespace picchio
