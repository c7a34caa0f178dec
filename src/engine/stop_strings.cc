#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace picchio {

Result<StopStringMatcher> StopStringMatcher::Create(const std::vector<std::string>& stop_strings) {
  StopStringMatcher matcher;
  for (const std::string& text : stop_strings) {
    if (text.empty()) {
      return Error(Code::kInvalidArgument, "a stop string is empty: it would stop before any text");
    }
    // Generated text is valid UTF-8, so such a string would never be found.
    if (!IsValidUtf8(text)) {
      return Error(Code::kInvalidArgument, "a stop string is not valid UTF-8 at byte {}",
                   ValidUtf8Prefix(text));
    }
    Pattern pattern{.text = text, .fallback = {0, 0}};
    for (size_t n = 1; n < text.size(); ++n) {
      size_t length = pattern.fallback[n];
      while (length > 0 && text[length] != text[n]) length = pattern.fallback[length];
      pattern.fallback.push_back(text[length] == text[n] ? length + 1 : 0);
    }
    matcher.patterns_.push_back(std::move(pattern));
  }
  return matcher;
}

void StopStringMatcher::Advance(Pattern& pattern, char byte) {
  size_t& length = pattern.matched_bytes;
  while (length > 0 && pattern.text[length] != byte) length = pattern.fallback[length];
  if (pattern.text[length] == byte) ++length;
}

std::string StopStringMatcher::Append(std::string_view piece) {
  if (stopped()) return {};
  std::string pending = std::move(held_);
  held_.clear();
  size_t held_bytes = pending.size();
  for (char byte : piece) {
    pending.push_back(byte);
    held_bytes = 0;
    for (Pattern& pattern : patterns_) {
      Advance(pattern, byte);
      held_bytes = std::max(held_bytes, pattern.matched_bytes);
      if (pattern.matched_bytes == pattern.text.size() && pattern.text.size() > matched_.size()) {
        matched_ = pattern.text;
      }
    }
    if (stopped()) {
      pending.resize(pending.size() - matched_.size());
      return pending;
    }
  }
  held_ = pending.substr(pending.size() - held_bytes);
  pending.resize(pending.size() - held_bytes);
  return pending;
}

std::string StopStringMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace picchio
