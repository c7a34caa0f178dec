// `picchio inspect STORE`: what an aligned store says of itself. Reads superblock and index.
#pragma once

#include <string>

#include "base/file.h"
#include "base/status.h"
#include "format/flat_index.h"

namespace picchio {

// Of a file or a block device, through the page cache. Fails where superblock, index or size are
// wrong.
Result<FlatIndex> InspectStore(const Path& store);

// The same as a table for people and as JSON for scripts.
std::string StoreTable(const FlatIndex& index);
std::string StoreJson(const FlatIndex& index);

}  // namespace picchio
