#include "tokenizer/stream_decoder.h"

#include <random>

#include "base/utf8.h"
#include "support/test_support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_test_support.h"

namespace picchio {
namespace {

constexpr const char* kReplacement = "\uFFFD";

class StreamDecoderTest : public testing::Test {
 protected:
  StreamDecoderTest() {
    auto tokenizer = Tokenizer::Parse(TinyTokenizer().dump(), "tiny");
    EXPECT_OK(tokenizer);
    tokenizer_ = std::make_unique<Tokenizer>(std::move(tokenizer).value());
  }

  // Bytes are their own ids.
  std::string Decoded(std::string_view bytes) {
    std::vector<int32_t> ids;
    for (const char byte : bytes) ids.push_back(static_cast<uint8_t>(byte));
    const std::string whole = tokenizer_->Decode(ids);
    StreamDecoder decoder(*tokenizer_);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string part = decoder.Push(id);
      EXPECT_TRUE(IsValidUtf8(part));
      joined += part;
    }
    joined += decoder.Finish();
    EXPECT_EQ(joined, whole);
    return whole;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StreamDecoderTest, HoldsWhatIsIncomplete) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.Push(259), "hello");
  EXPECT_EQ(decoder.Push(0xF0), "");
  EXPECT_EQ(decoder.Push(0x9F), "");
  EXPECT_EQ(decoder.Push(0x90), "");
  EXPECT_EQ(decoder.Push(0xA6), "\U0001F426");
  EXPECT_EQ(decoder.Push(265), "<|end|>");
  EXPECT_EQ(decoder.Push(100'000), "");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST_F(StreamDecoderTest, GivesUpOnWhatNothingCanComplete) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.Push(0xE4), "");
  EXPECT_EQ(decoder.Push('x'), std::string(kReplacement) + "x");
  EXPECT_EQ(decoder.Push(0xFF), kReplacement);
  EXPECT_EQ(decoder.Push(0xE4), "");
  EXPECT_EQ(decoder.Push(0xB8), "");
  EXPECT_EQ(decoder.Finish(), kReplacement);
  EXPECT_EQ(decoder.Finish(), "");
  EXPECT_EQ(decoder.Push('y'), "y");
}

// The Unicode Standard 15.0, tables 3-8 to 3-11: one U+FFFD for each maximal subpart.
TEST_F(StreamDecoderTest, MaximalSubparts) {
  const auto expected = [](std::string pattern) {  // ? stands for U+FFFD.
    std::string text;
    for (const char c : pattern) text += c == '?' ? kReplacement : std::string(1, c);
    return text;
  };
  EXPECT_EQ(Decoded("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), expected("????????A"));
  EXPECT_EQ(Decoded("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), expected("????????A"));
  EXPECT_EQ(Decoded("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), expected("?????A??B"));
  EXPECT_EQ(Decoded("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), expected("????A"));
  EXPECT_EQ(Decoded("\xF0\x9F\x90"), expected("?"));
}

TEST_F(StreamDecoderTest, AnyBytesTogetherOrOneByOne) {
  std::mt19937 random(3);
  const std::string_view bytes =
      "a\x80\xBF\xC3\xA9\xE0\xA0\xE4\xB8\xAD\xED\xF0\x9F\x90\xF4\x8F\xFF";
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += bytes[random() % bytes.size()];
    const std::string decoded = Decoded(text);
    EXPECT_TRUE(IsValidUtf8(decoded));
    if (IsValidUtf8(text)) {
      EXPECT_EQ(decoded, text);
    }
  }
}

}  // namespace
}  // namespace picchio
