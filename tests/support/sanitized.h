// PICCHIO_SANITIZED where the build has the address or the thread sanitizer.
#pragma once

#if defined(__has_feature)  // clang's way of saying so
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PICCHIO_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PICCHIO_SANITIZED
#endif
