// A table for a terminal.
#pragma once

#include <string>
#include <vector>

namespace picchio {

// Rows under a head, as wide as their widest cells; the first column to the left, the others to the
// right, as numbers are.
std::string TextTable(const std::vector<std::string>& head,
                      const std::vector<std::vector<std::string>>& rows);

}  // namespace picchio
