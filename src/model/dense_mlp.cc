#include "model/dense_mlp.h"

namespace picchio {

DenseMlp::DenseMlp(const ModelConfig& config, size_t max_rows, Carver& carver) {
  const size_t width = config.intermediate_size;
  const size_t rows = width == 0 ? 0 : max_rows;
  normed_ = carver.Take<float>(rows * config.hidden_size);
  gate_up_ = carver.Take<float>(rows * 2 * width);
  activated_ = carver.Take<float>(rows * width);
  output_ = carver.Take<float>(rows * config.hidden_size);
  quantized_input_ = carver.TakeQuantized(ActivationKind::kForInt8, config.hidden_size, rows);
  quantized_activated_ = carver.TakeQuantized(ActivationKind::kForInt8, width, rows);
}

void DenseMlp::Run(StepContext& step, uint32_t layer, const LayerWeights& weights, float* x) {
  const size_t hidden = step.config.hidden_size;
  const size_t width = step.config.intermediate_size;
  step.Norm(x, weights.post_attention_norm, normed_);
  const Product products[] = {
      step.ProductOf(weights.gate, normed_, quantized_input_, gate_up_, 2 * width),
      step.ProductOf(weights.up, normed_, quantized_input_, gate_up_ + width, 2 * width)};
  if (products[0].quantized || products[1].quantized) step.Quantize(normed_, quantized_input_);
  step.products.Run(products);
  step.ForRows([&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      step.kernels.swiglu(gate_up_ + row * 2 * width, width, activated_ + row * width);
    }
  });
  const Product down =
      step.ProductOf(weights.down, activated_, quantized_activated_, output_, hidden);
  if (down.quantized) step.Quantize(activated_, quantized_activated_);
  step.products.Run({&down, 1});
  if (step.observer != nullptr) step.observer->OnMlp(layer, {output_, step.num_rows * hidden});
  step.ForRows([&](size_t begin, size_t end, int) {
    step.kernels.add(output_ + begin * hidden, (end - begin) * hidden, x + begin * hidden);
  });
}

}  // namespace picchio
