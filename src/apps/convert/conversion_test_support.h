// Conversions as tests want them, and what they leave.
#pragma once

#include "apps/convert/convert.h"
#include "support/test_support.h"

namespace picchio {

// As the fixtures' references were made, and the experts as safetensors too.
inline ConversionOptions Reference() {
  ConversionOptions options;
  options.experts = PayloadKind::kInt4;
  options.int8_head = false;
  options.quantizer = Int4Scheme::kAbsmax;
  options.keep_safetensors = true;
  return options;
}

// Everything as it is by default, and the experts as safetensors too.
inline ConversionOptions Kept() {
  ConversionOptions options;
  options.keep_safetensors = true;
  return options;
}

inline Result<ConversionReport> ConvertTo(const Path& checkpoint, const Path& model,
                                          const ConversionOptions& options, int threads = 2) {
  return Convert(checkpoint, model, options, threads, kGoOn);
}

}  // namespace picchio
