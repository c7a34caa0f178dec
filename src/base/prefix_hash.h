// SHA-256 of a beginning and of the whole, the bytes of the beginning hashed once.
#pragma once

#include <cstddef>
#include <span>

#include "base/hash.h"

namespace picchio {

struct PrefixHashes {
  Sha256Digest prefix;
  Sha256Digest whole;
};

// Of bytes.first(prefix_bytes), which there are, and of all.
PrefixHashes HashPrefixAndWhole(std::span<const std::byte> bytes, size_t prefix_bytes);

}  // namespace picchio
