// The models that `picchio synth` makes: the dimensions of published ones, and two tiny ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace picchio {

// "qwen3-30b-a3b", "qwen3-235b-a22b", "gpt-oss-20b", "gpt-oss-120b", "tiny-qwen3", "tiny-gpt-oss".
std::vector<std::string> ShapeNames();
bool IsShapeName(std::string_view name);

// The config.json of a model of this shape, whose text ends with `eos_token_id`, as published but
// for that id and for the number of layers where one is given. Fails with kInvalidArgument for
// another name (listing those there are), and for no layers or more than the shape has.
Result<std::string> ShapeConfig(std::string_view name, std::optional<uint32_t> num_layers,
                                int32_t eos_token_id);

}  // namespace picchio
