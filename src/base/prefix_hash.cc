#include "base/prefix_hash.h"

#include <openssl/evp.h>

#include <memory>

#include "base/check.h"

namespace picchio {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Sha256Digest Finish(EVP_MD_CTX* context) {
  Sha256Digest digest;
  PICCHIO_CHECK(EVP_DigestFinal_ex(context, digest.bytes.data(), nullptr) == 1);
  return digest;
}

}  // namespace

PrefixHashes HashPrefixAndWhole(std::span<const std::byte> bytes, size_t prefix_bytes) {
  const Context whole(EVP_MD_CTX_new());
  const Context prefix(EVP_MD_CTX_new());
  PICCHIO_CHECK(whole != nullptr && prefix != nullptr && prefix_bytes <= bytes.size());
  PICCHIO_CHECK(EVP_DigestInit_ex(whole.get(), EVP_sha256(), nullptr) == 1);
  PICCHIO_CHECK(EVP_DigestUpdate(whole.get(), bytes.data(), prefix_bytes) == 1);
  PICCHIO_CHECK(EVP_MD_CTX_copy_ex(prefix.get(), whole.get()) == 1);
  const auto rest = bytes.subspan(prefix_bytes);
  PICCHIO_CHECK(EVP_DigestUpdate(whole.get(), rest.data(), rest.size()) == 1);
  return {Finish(prefix.get()), Finish(whole.get())};
}

}  // namespace picchio
