// JSON from outside, read strictly: configs, headers, manifests, requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace picchio {

using Json = nlohmann::json;

// Parses one JSON value. `where` is what messages call the text ("model/config.json").
// Refused: anything after the value, invalid UTF-8, a byte-order mark (RFC 8259 forbids it and
// Python's reader refuses it too), what is no JSON but a Git LFS pointer or a web page, a key that
// stands twice in one object (the last one would win in silence), and more than `max_depth` levels
// (a bomb of brackets). Takes O(n log n) time and memory proportional to the text.
Result<Json> ParseJson(std::string_view text, std::string_view where, int max_depth = 64);

// The value as a whole number: what is beyond the range of int64_t becomes its nearest end. None
// where it is no integer.
std::optional<int64_t> WholeNumber(const Json& value);

// "a string", "an object", ...: how a message names what was found.
std::string_view JsonTypeName(const Json& value);

}  // namespace picchio
