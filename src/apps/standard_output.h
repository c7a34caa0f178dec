// Standard output, with an answer when it is lost: a full disk, a reader that has gone.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace picchio {

// Writes all of it and hands it to the system at once. After a failure nothing more is worth
// computing.
Status WriteStandardOutput(std::string_view text);

// Hands over what was printed otherwise; fails where any of it was lost.
Status FlushStandardOutput();

}  // namespace picchio
