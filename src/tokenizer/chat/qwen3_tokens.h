// The tokens that Qwen3's format consists of, as they are written.
#pragma once

#include <string_view>

namespace picchio::qwen3 {

inline constexpr std::string_view kStart = "<|im_start|>";
inline constexpr std::string_view kEnd = "<|im_end|>";
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kEndThink = "</think>";
inline constexpr std::string_view kCall = "<tool_call>";
inline constexpr std::string_view kEndCall = "</tool_call>";
inline constexpr std::string_view kResponse = "<tool_response>";
inline constexpr std::string_view kEndResponse = "</tool_response>";

}  // namespace picchio::qwen3
