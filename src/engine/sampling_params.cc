#include "engine/sampling_params.h"

#include <cmath>
#include <string_view>

namespace picchio {
namespace {

// Written so that NaN fails.
Status CheckRange(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return Status::Ok();
  return Error(Code::kInvalidArgument, "{} is {}, expected a number from {} to {}", name, value,
               low, high);
}

}  // namespace

Status Validate(const SamplingParams& params, int32_t vocabulary_size) {
  if (!(params.temperature >= 0) || std::isinf(params.temperature)) {
    return Error(Code::kInvalidArgument,
                 "temperature is {}, expected a number of 0 (greedy) or more", params.temperature);
  }
  if (params.top_k < 0) {
    return Error(Code::kInvalidArgument, "top_k is {}, expected 0 (off) or more", params.top_k);
  }
  PICCHIO_RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  PICCHIO_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  // Wide enough for any use, narrow enough that no logit can overflow.
  PICCHIO_RETURN_IF_ERROR(CheckRange("repeat_penalty", params.repeat_penalty, 0.01, 100));
  PICCHIO_RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  PICCHIO_RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocabulary_size) {
      return Error(Code::kInvalidArgument,
                   "logit_bias names token {}, but the vocabulary's ids are 0 to {}", id,
                   vocabulary_size - 1);
    }
    if (std::isnan(bias) || (std::isinf(bias) && bias > 0)) {
      return Error(Code::kInvalidArgument,
                   "logit_bias of token {} is {}, expected a number, or -inf to ban the token", id,
                   bias);
    }
  }
  return Status::Ok();
}

}  // namespace picchio
