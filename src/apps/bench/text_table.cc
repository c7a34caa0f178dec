#include "apps/bench/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace picchio {

std::string TextTable(const std::vector<std::string>& head,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  widths.reserve(head.size());
  for (const std::string& cell : head) widths.push_back(cell.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  const auto add = [&](const std::vector<std::string>& row) {
    table += fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i) table += fmt::format("  {:>{}}", row[i], widths[i]);
    table += "\n";
  };
  add(head);
  for (const auto& row : rows) add(row);
  return table;
}

}  // namespace picchio
