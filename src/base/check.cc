#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace picchio {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "picchio: bug at %s:%d: %s does not hold\n", file, line, expression);
  std::abort();
}

}  // namespace picchio
