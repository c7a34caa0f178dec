// JSON from outside, read strictly: configs, headers, manifests, requests.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace picchio {

using Json = nlohmann::json;

// Parses one JSON value. `where` is what messages call the text ("model/config.json").
// Refused: anything after the value, invalid UTF-8, a key that stands twice in one object (the last
// one would win in silence), and more than `max_depth` levels (a bomb of brackets).
// Takes O(n log n) time and memory proportional to the text.
Result<Json> ParseJson(std::string_view text, std::string_view where, int max_depth = 64);

// "a string", "an object", ...: how a message names what was found.
std::string_view JsonTypeName(const Json& value);

}  // namespace picchio
