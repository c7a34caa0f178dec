// How positions turn queries and keys: the rotary fields of config.json.
#pragma once

#include <cstdint>

namespace picchio {

class FieldReader;

// Rotary embedding with component i paired with i + head_dim / 2. With `yarn`, YaRN (Peng et al.,
// 2023, arXiv:2309.00071) at every position:
//
//     f_i        = theta^(2i / d)
//     edge(b)    = d ln(original / (2 pi b)) / (2 ln theta), with `truncate` a whole number:
//     low        = max(edge(beta_fast), 0), rounded down
//     high       = min(edge(beta_slow), d - 1), rounded up
//     ramp_i     = clamp((i - low) / (high - low), 0, 1)
//     inv_freq_i = (1 - ramp_i) / f_i + ramp_i / (factor f_i)
//
// and cos and sin times attention_factor. Without it inv_freq_i = 1 / f_i.
struct RopeConfig {
  double theta = 0;
  bool yarn = false;
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 1;  // Follows from mscale, mscale_all_dim and factor unless given.
  uint32_t original_max_position_embeddings = 0;
  bool truncate = true;

  bool operator==(const RopeConfig&) const = default;
};

// What the reference implementation takes where config.json is silent.
struct RopeDefaults {
  double theta = 10000;
  // The rotation where neither rope_scaling nor rope_parameters stands in the file. Its theta is
  // not looked at.
  RopeConfig rotation;
  // Whether `"rope_scaling": null` is unambiguous.
  bool null_means_plain = true;
};

// Reads rope_theta with rope_scaling (transformers 4) or rope_parameters (transformers 5), or both
// if they say the same. Failures are left in `config`. Types other than "default" and "yarn" fail
// with kUnsupported.
RopeConfig ReadRopeConfig(FieldReader& config, const RopeDefaults& defaults,
                          uint32_t max_position_embeddings);

}  // namespace picchio
