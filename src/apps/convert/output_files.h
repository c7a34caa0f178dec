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

  // Any thread, several at a time.
  Status Write(const OutputTensor& tensor, uint64_t offset, std::span<const std::byte> bytes);
  // The file that holds the tensor, at its offset.
  const File& FileOf(const OutputTensor& tensor) const { return files_[tensor.file_idx]; }

  // Syncs every file and gives it its own name.
  Status Publish();

 private:
  Path folder_;
  std::vector<std::string> names_;
  std::vector<File> files_;
};

}  // namespace picchio
