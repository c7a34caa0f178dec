// How every --json report reaches standard output.
#pragma once

#include "base/json.h"

namespace picchio {

// Indented, with a newline at the end; bytes that are not UTF-8 (a path may have such) become
// U+FFFD.
void PrintJson(const Json& json);

}  // namespace picchio
