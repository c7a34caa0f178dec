// Checks of our own invariants: a failure is a bug in this program and stops it. Data from a file,
// a device, a peer or a client never reaches one; it is answered with a Status.
#pragma once

namespace picchio {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace picchio

#define PICCHIO_CHECK(expression) \
  ((expression) ? void(0) : ::picchio::CheckFailed(#expression, __FILE__, __LINE__))

// For inner loops: compiled out of release builds.
#ifdef NDEBUG
#define PICCHIO_DCHECK(expression) void(0)
#else
#define PICCHIO_DCHECK(expression) PICCHIO_CHECK(expression)
#endif
