#include "apps/standard_output.h"

#include <cerrno>
#include <cstdio>

namespace picchio {
namespace {

// `error_number` is 0 where the failure lies too far back to know.
Status Lost(int error_number) {
  constexpr std::string_view kWhat = "cannot write to standard output";
  if (error_number == 0) return {Code::kIoError, std::string(kWhat)};
  return ErrnoError(error_number, kWhat);
}

}  // namespace

Status WriteStandardOutput(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) return Lost(errno);
  return FlushStandardOutput();
}

Status FlushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) != 0) return Lost(errno);
  return std::ferror(stdout) == 0 ? Status::Ok() : Lost(0);
}

}  // namespace picchio
