#include "base/hash.h"

#include <openssl/evp.h>

namespace picchio {

std::string Sha256Digest::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(64);
  for (uint8_t byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

Result<Sha256Digest> Sha256Digest::FromHex(std::string_view hex) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  Sha256Digest digest;
  if (hex.size() != 64) {
    return Error(Code::kCorrupt, "a SHA-256 has {} digits, expected 64", hex.size());
  }
  for (size_t i = 0; i < 32; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Error(Code::kCorrupt, "a SHA-256 holds a character that is not 0-9 or a-f");
    }
    digest.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  PICCHIO_CHECK(context_->evp != nullptr);
  PICCHIO_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  PICCHIO_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::DigestSoFar() const {
  Sha256 copy;
  PICCHIO_CHECK(EVP_MD_CTX_copy_ex(copy.context_->evp, context_->evp) == 1);
  return copy.Finish();
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned length = 0;
  PICCHIO_CHECK(EVP_DigestFinal_ex(context_->evp, digest.bytes.data(), &length) == 1);
  PICCHIO_CHECK(length == digest.bytes.size());
  return digest;
}

Sha256Digest Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

Sha256Digest Sha256Of(std::string_view text) { return Sha256Of(std::as_bytes(std::span(text))); }

}  // namespace picchio
