// What often lies where a downloaded file should be.
#pragma once

#include <string_view>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// Fails with kUnsupported, saying what it is and what to do, where a file that begins with
// `first_bytes` (64 tell) is a Git LFS pointer or a web page. `where` names the file.
Status CheckNotForeign(std::string_view first_bytes, std::string_view where);
// The same for the file's own first bytes.
Status CheckNotForeign(const RandomAccessFile& file);

}  // namespace picchio
