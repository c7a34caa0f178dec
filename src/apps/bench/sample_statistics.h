// What several measurements of one thing say together.
#pragma once

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

}  // namespace picchio
