#include "apps/standard_input.h"

#include <cstdio>

namespace picchio {

Result<std::string> ReadStandardInput(uint64_t max_bytes) {
  std::string text;
  char buffer[65536];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0) {
    text.append(buffer, got);
    if (text.size() > max_bytes) {
      return Error(Code::kInvalidArgument, "standard input holds more than {} bytes", max_bytes);
    }
  }
  if (std::ferror(stdin) != 0) return Error(Code::kIoError, "cannot read standard input");
  return text;
}

}  // namespace picchio
