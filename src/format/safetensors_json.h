// The JSON of a safetensors header, read as a stream: what does not belong there is refused where
// it stands, so a hostile header cannot grow into a tree many times its size.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/safetensors.h"

namespace picchio {

inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

// The tensors in the order of the text, each checked by itself: name, dtype, shape, and
// data_offsets that are not inverted and as far apart as shape and dtype say. `offset` is as in the
// text, from the start of the data. That names are unique and tensors do not overlap is the
// caller's to check.
Result<std::vector<TensorInfo>> ParseSafetensorsJson(std::string_view json, std::string_view where);

}  // namespace picchio
