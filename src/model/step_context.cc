#include "model/step_context.h"

#include <variant>

namespace picchio {

Product StepContext::ProductOf(const Linear& linear, const float* x,
                               const QuantizedRows& quantized_x, float* y, size_t y_stride) const {
  Product product;
  product.weights = &linear.weights;
  product.bias = linear.bias;
  product.x = {x, num_rows, ColsOf(linear.weights)};
  product.y = {y, y_stride};
  if (compute == Compute::kInt8 && std::holds_alternative<Int8Matrix>(linear.weights)) {
    product.quantized = true;
    product.quantized_x = quantized_x.Slice(0, num_rows);
  }
  return product;
}

}  // namespace picchio
