// The tokens and the words that the Harmony format consists of, as they are written.
#pragma once

#include <string_view>

namespace picchio::harmony {

inline constexpr std::string_view kStart = "<|start|>";
inline constexpr std::string_view kChannel = "<|channel|>";
inline constexpr std::string_view kConstrain = "<|constrain|>";
inline constexpr std::string_view kMessage = "<|message|>";
inline constexpr std::string_view kEnd = "<|end|>";
inline constexpr std::string_view kCall = "<|call|>";
inline constexpr std::string_view kReturn = "<|return|>";
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

inline constexpr char kAssistant[] = "assistant";
inline constexpr char kUser[] = "user";
inline constexpr char kSystem[] = "system";
inline constexpr char kDeveloper[] = "developer";

inline constexpr char kAnalysis[] = "analysis";
inline constexpr char kCommentary[] = "commentary";
inline constexpr char kFinal[] = "final";

inline constexpr char kFunctions[] = "functions";  // The namespace of the developer's tools.
inline constexpr char kJsonType[] = "<|constrain|>json";

}  // namespace picchio::harmony
