// Ctrl-C (SIGINT) and SIGTERM as a flag that long work looks at; a second one ends the process.
#pragma once

#include <atomic>

namespace picchio {

// Installs the handlers on the first call. The flag stays set once it is.
const std::atomic<bool>& InterruptFlag();

}  // namespace picchio
