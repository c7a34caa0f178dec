// Whether a record is the one that a store's index speaks of, wherever its bytes came from.
#pragma once

#include <span>
#include <string>

#include "base/function_ref.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// kCorrupt where `record` contradicts the entry's hashes: the CRC-32C, which
// version 3 has, always, and where asked for the SHA-256 (of which version 2 keeps 8 bytes).
// `place` ends the message: where the bytes came from. Any thread.
Status CheckRecordHashes(const FlatEntry& entry, RecordVersion version, bool verify_sha256,
                         std::span<const std::byte> record, FunctionRef<std::string()> place);

}  // namespace picchio
