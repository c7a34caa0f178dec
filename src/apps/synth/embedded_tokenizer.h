// The demo's tokenizer.json as part of the program: what synthetic models read and write text with.
#pragma once

#include <string_view>

namespace picchio {

// 4,096 tokens, three of them special. Made by the build from models/demo/tokenizer.json.
std::string_view EmbeddedTokenizer();

}  // namespace picchio
