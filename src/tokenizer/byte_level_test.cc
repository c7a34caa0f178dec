#include "tokenizer/byte_level.h"

#include "support/test_support.h"

namespace picchio {
namespace {

// The pairs are read off GPT-2's published vocabulary and the rule's own text.
TEST(ByteLevel, StandIns) {
  EXPECT_EQ(ByteLevelCharacter('!'), U'!');
  EXPECT_EQ(ByteLevelCharacter('a'), U'a');
  EXPECT_EQ(ByteLevelCharacter('~'), U'~');
  EXPECT_EQ(ByteLevelCharacter(0x00), U'\u0100');
  EXPECT_EQ(ByteLevelCharacter('\n'), U'\u010A');
  EXPECT_EQ(ByteLevelCharacter(' '), U'\u0120');
  EXPECT_EQ(ByteLevelCharacter(0x7F), U'\u0121');
  EXPECT_EQ(ByteLevelCharacter(0x80), U'\u0122');
  EXPECT_EQ(ByteLevelCharacter(0xA0), U'\u0142');
  EXPECT_EQ(ByteLevelCharacter(0xA1), U'\u00A1');
  EXPECT_EQ(ByteLevelCharacter(0xAD), U'\u0143');
  EXPECT_EQ(ByteLevelCharacter(0xFF), U'\u00FF');
}

TEST(ByteLevel, TokensToBytes) {
  EXPECT_EQ(BytesOfByteLevel(""), "");
  EXPECT_EQ(BytesOfByteLevel("\u0120Hello!"), " Hello!");
  EXPECT_EQ(BytesOfByteLevel("\u010A\u010A"), "\n\n");
  EXPECT_EQ(BytesOfByteLevel("\u00C3\u00A9"), "\xC3\xA9");  // e acute, in its two bytes.
  EXPECT_EQ(BytesOfByteLevel("\u0143"), "\xAD");
}

TEST(ByteLevel, EveryByteComesBack) {
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = ByteLevelCharacter(static_cast<uint8_t>(byte));
    std::string token;
    if (character < 0x80) {
      token = static_cast<char>(character);
    } else {
      token = {static_cast<char>(0xC0 | character >> 6),
               static_cast<char>(0x80 | (character & 63))};
    }
    EXPECT_EQ(BytesOfByteLevel(token), std::string(1, static_cast<char>(byte))) << byte;
  }
}

TEST(ByteLevel, OtherCharactersAreNone) {
  for (const char* token : {" ", "\n", "\x7F", "\u0080", "\u00A0", "\u00AD", "\u0144", "\u07FF",
                            "\u2581", "\U0001F600", "ok\u0144"}) {
    EXPECT_EQ(BytesOfByteLevel(token), std::nullopt) << token;
  }
}

}  // namespace
}  // namespace picchio
