// What quantising lost, summed over as many weights as one likes.
#pragma once

#include <cmath>

namespace picchio {

struct QuantError {
  double squared_error = 0;  // Sum of (w - decoded)^2.
  double squared_sum = 0;    // Sum of w^2.

  void Add(const QuantError& other) {
    squared_error += other.squared_error;
    squared_sum += other.squared_sum;
  }

  // The error's root mean square as a share of the weights': 0 where all weights are 0.
  double Relative() const { return squared_sum > 0 ? std::sqrt(squared_error / squared_sum) : 0; }
};

}  // namespace picchio
