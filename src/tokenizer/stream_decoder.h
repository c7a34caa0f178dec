// Token ids to text as they come: a character may be spread over several tokens.
#pragma once

#include <cstdint>
#include <string>

namespace picchio {

class Tokenizer;

// One stream of tokens. One thread at a time. What all calls returned, joined, is what
// Tokenizer::Decode gives for all the ids, whatever the ids are.
class StreamDecoder {
 public:
  // The tokenizer outlives this.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text that became whole with this token: valid UTF-8, empty while a character is incomplete.
  // Bytes that no token can complete any more come out as U+FFFD, one for each maximal part of a
  // character (Unicode Standard, section 3.9, "U+FFFD substitution of maximal subparts").
  std::string Push(int32_t id);

  // The end: U+FFFD if a character was left incomplete. The decoder is then as new.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;  // The beginning of a character, at most 3 bytes.
};

}  // namespace picchio
