#include "base/prefix_hash.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(PrefixHash, IsWhatBothAreByThemselves) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (const size_t prefix : {size_t{0}, size_t{1}, size_t{64}, size_t{777}, text.size()}) {
    const PrefixHashes hashes = HashPrefixAndWhole(std::as_bytes(std::span(text)), prefix);
    EXPECT_EQ(hashes.prefix, Sha256Of(std::string_view(text).substr(0, prefix))) << prefix;
    EXPECT_EQ(hashes.whole, Sha256Of(text)) << prefix;
  }
}

}  // namespace
}  // namespace picchio
