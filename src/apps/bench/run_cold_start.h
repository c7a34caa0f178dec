// So that a run finds nothing of its model in memory.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// The files of a model's folder and `stores`, those of them that there are.
std::vector<Path> FilesToForget(const Path& model, const std::vector<Path>& stores);

// Empties the page cache: all of it where this process may ask the kernel to through `control`;
// otherwise of these files, which the kernel takes as advice. Says in a few words which it was.
// Fails where a file cannot be opened; one that has gone is passed over.
Result<std::string> ForgetFiles(const std::vector<Path>& files,
                                const Path& control = "/proc/sys/vm/drop_caches");

}  // namespace picchio
