// The files that a conversion is writing, under temporary names until all of them are whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/convert/conversion_plan.h"
#include "base/file.h"
#include "base/status.h"

namespace picchio {

class OutputFiles {
 public:
  // Opens or creates the plan's files in `folder`, checks that the disk can hold what is still to
  // be written (with the figures), reserves it, and writes the headers.
  static Result<OutputFiles> Open(const Path& folder, const ConversionPlan& plan);

  // At `offset` in a file of the plan. Any thread, several at a time.
  Status Write(size_t file_idx, uint64_t offset, std::span<const std::byte> bytes);
  const File& file(size_t file_idx) const { return files_[file_idx]; }

  // Syncs every file and gives it its own name.
  Status Publish();

 private:
  Path folder_;
  std::vector<std::string> names_;
  std::vector<File> files_;
};

}  // namespace picchio
