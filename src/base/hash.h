// SHA-256 (FIPS 180-4) of tensors, records and files. The arithmetic is OpenSSL's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace picchio {

struct Sha256Digest {
  std::array<uint8_t, 32> bytes{};

  bool operator==(const Sha256Digest&) const = default;
  std::string Hex() const;  // 64 lower-case digits.
  static Result<Sha256Digest> FromHex(std::string_view hex);
};

// Running SHA-256. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }
  Sha256Digest DigestSoFar() const;  // More bytes may follow.
  // The digest of all bytes. The object is then spent.
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest Sha256Of(std::span<const std::byte> bytes);
Sha256Digest Sha256Of(std::string_view text);

}  // namespace picchio
