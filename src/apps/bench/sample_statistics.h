// What several measurements of one thing say together.
#pragma once

#include <optional>
#include <vector>

namespace picchio {

struct Spread {
  double median = 0;
  double least = 0;
  double greatest = 0;
};

Spread SpreadOf(std::vector<double> values);  // Of none: zeros.

// The q-quantile (0 to 1) of sorted values by the nearest rank; 0 of none.
double Quantile(const std::vector<double>& sorted, double q);

// Where the median of what the values are drawn from lies, with at least this confidence, whatever
// their distribution: between two of the values in order, as the binomial distribution of the
// number below the median says (Conover, Practical Nonparametric Statistics, 3.2). None where they
// are too few for it: 95 % take six.
struct Interval {
  double low = 0;
  double high = 0;
};
std::optional<Interval> MedianInterval(std::vector<double> values, double confidence);

}  // namespace picchio
