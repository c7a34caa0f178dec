#include "base/hash.h"

#include "support/test_support.h"

namespace picchio {
namespace {

// FIPS 180-4 example vectors, as NIST publishes them.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(Sha256Of("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 parts;
  parts.Update("abcdbcdecdefdefgefghfghi");
  parts.Update("ghijhijkijkljklmklmnlmnomnopnopq");
  EXPECT_EQ(parts.Finish().Hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, ABeginningAndTheWholeInOnePass) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (const size_t prefix : {size_t{0}, size_t{1}, size_t{64}, size_t{777}, text.size()}) {
    Sha256 hash;
    hash.Update(std::string_view(text).substr(0, prefix));
    EXPECT_EQ(hash.DigestSoFar(), Sha256Of(std::string_view(text).substr(0, prefix))) << prefix;
    hash.Update(std::string_view(text).substr(prefix));
    EXPECT_EQ(hash.Finish(), Sha256Of(text)) << prefix;
  }
}

TEST(Sha256, HexBothWays) {
  const Sha256Digest digest = Sha256Of("abc");
  ASSERT_OK_AND_ASSIGN(const Sha256Digest back, Sha256Digest::FromHex(digest.Hex()));
  EXPECT_EQ(back, digest);
  EXPECT_THAT(Sha256Digest::FromHex("abc"), Fails(Code::kCorrupt, "3 digits"));
  EXPECT_THAT(Sha256Digest::FromHex(std::string(64, 'G')), Fails(Code::kCorrupt, "not 0-9"));
}

}  // namespace
}  // namespace picchio
