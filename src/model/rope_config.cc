#include "model/rope_config.h"

#include <string>

#include "base/printable.h"
#include "kernels/rope.h"
#include "model/field_reader.h"

namespace picchio {
namespace {

constexpr double kMaxTheta = 1e12;

// One of the two dictionaries. `theta` is what stands outside of it, 0 if nothing does.
RopeConfig ReadDictionary(FieldReader& config, std::string_view name, double theta,
                          const RopeDefaults& defaults, uint32_t max_position_embeddings) {
  FieldReader fields(*config.Find({name}), config.where() + ": " + std::string(name));
  RopeConfig rope;
  rope.theta =
      fields.NumberOr(theta == 0 ? defaults.theta : theta, "rope_theta", 1.0001, kMaxTheta);
  if (theta != 0 && rope.theta != theta) {
    fields.Fail(Error(Code::kCorrupt, "{}: rope_theta is {} but {} outside of it", fields.where(),
                      rope.theta, theta));
  }
  if (fields.NumberOr(1, "partial_rotary_factor", 0, 1) != 1) {
    fields.Fail(Error(Code::kUnsupported,
                      "{}: a partial_rotary_factor other than 1 is not supported", fields.where()));
  }
  std::string type = "default";
  if (const Json* value = fields.Find({"rope_type", "type"})) {
    type = value->is_string() ? value->get<std::string>() : std::string(JsonTypeName(*value));
  }
  if (type == "yarn") {
    rope.yarn = true;
    rope.original_max_position_embeddings =
        fields.CountOr(max_position_embeddings, {"original_max_position_embeddings"}, 1, 1u << 30);
    // Some versions of the reference take max_position_embeddings /
    // original_max_position_embeddings even where a factor is given; model cards, vLLM and
    // transformers 5 go by the factor.
    const double ratio = static_cast<double>(max_position_embeddings) /
                         static_cast<double>(rope.original_max_position_embeddings);
    rope.factor = fields.NumberOr(ratio, "factor", 1, 1e6);
    rope.beta_fast = fields.NumberOr(32, "beta_fast", 1e-3, 1e6);
    rope.beta_slow = fields.NumberOr(1, "beta_slow", 1e-3, 1e6);
    rope.truncate = fields.FlagOr(true, "truncate");
    const double mscale = fields.NumberOr(0, "mscale", 0, 1e3);
    const double mscale_all_dim = fields.NumberOr(0, "mscale_all_dim", 0, 1e3);
    const double by_rule = mscale != 0 && mscale_all_dim != 0
                               ? YarnAttentionFactor(rope.factor, mscale, mscale_all_dim)
                               : YarnAttentionFactor(rope.factor);
    rope.attention_factor = fields.NumberOr(by_rule, "attention_factor", 1e-3, 1e3);
    if (rope.factor < 1) {
      fields.Fail(Error(Code::kUnsupported,
                        "{}: factor is missing and max_position_embeddings {} is less than "
                        "original_max_position_embeddings {}",
                        fields.where(), max_position_embeddings,
                        rope.original_max_position_embeddings));
    }
    if (rope.beta_fast <= rope.beta_slow) {
      fields.Fail(Error(Code::kUnsupported, "{}: beta_fast {} is not larger than beta_slow {}",
                        fields.where(), rope.beta_fast, rope.beta_slow));
    }
  } else if (type != "default") {
    fields.Fail(Error(Code::kUnsupported,
                      "{}: the rotary type {} is not supported; supported: default, yarn",
                      fields.where(), Quoted(type)));
  }
  config.Fail(fields.Finish());
  return rope;
}

}  // namespace

RopeConfig ReadRopeConfig(FieldReader& config, const RopeDefaults& defaults,
                          uint32_t max_position_embeddings) {
  const double theta = config.NumberOr(0, "rope_theta", 1.0001, kMaxTheta);
  const bool scaling = config.Has("rope_scaling");
  const bool parameters = config.Has("rope_parameters");
  if (!scaling && !parameters) {
    RopeConfig rope = defaults.rotation;
    if (config.HasNull("rope_scaling") || config.HasNull("rope_parameters")) {
      if (!defaults.null_means_plain) {
        config.Fail(
            Error(Code::kUnsupported,
                  "{}: rope_scaling or rope_parameters is null, which versions of the reference "
                  "read differently; state the rotation ({{\"rope_type\": \"default\"}} for "
                  "none)",
                  config.where()));
      }
      rope = {};
    }
    rope.theta = theta == 0 ? defaults.theta : theta;
    return rope;
  }
  RopeConfig rope;
  if (scaling) {
    rope = ReadDictionary(config, "rope_scaling", theta, defaults, max_position_embeddings);
  }
  if (parameters) {
    const RopeConfig other =
        ReadDictionary(config, "rope_parameters", theta, defaults, max_position_embeddings);
    if (scaling && rope != other) {
      config.Fail(Error(Code::kCorrupt,
                        "{}: rope_scaling and rope_parameters contradict each other",
                        config.where()));
    }
    rope = other;
  }
  return rope;
}

}  // namespace picchio
