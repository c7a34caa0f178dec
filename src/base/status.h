// Status and Result<T>: how a function says that what it was asked for did not happen.
//
// Everything that can go wrong in a healthy program (a missing file, a short read, a bad checksum,
// a malformed request) comes back as one of these; nothing throws. A message is one sentence that
// says what, where, found and expected, and where possible what to do.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace picchio {

enum class Code : uint8_t {
  kOk,
  kInvalidArgument,    // The caller's words are wrong: a flag, a prompt, a request.
  kNotFound,           // A file, tensor or expert that is not there.
  kCorrupt,            // Bytes from outside that contradict themselves or their checksum.
  kUnsupported,        // Well-formed, but not something that this version can do.
  kIoError,            // The operating system or device refused or failed; see native_error().
  kUnavailable,        // Not now: a peer gone, a source stopped.
  kResourceExhausted,  // Memory, disk or queue space that is not there.
  kCancelled,          // Stopped on request.
};

std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  // `native_error` is the errno (or NVMe status) behind the failure, 0 if there is none.
  Status(Code code, std::string message, int native_error = 0)
      : code_(code), native_error_(native_error), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  int native_error() const { return native_error_; }
  const std::string& message() const { return message_; }

  // The same failure with `context` and ": " before its message; OK stays OK.
  Status WithContext(std::string_view context) const;

  // "corrupt: layer 12 expert 77: ...", for tests and logs. Users are shown message().
  std::string ToString() const;

 private:
  Code code_ = Code::kOk;
  int native_error_ = 0;
  std::string message_;
};

template <typename... Args>
Status Error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// An I/O error whose message ends in the system's own words for `error_number`.
Status ErrnoError(int error_number, std::string_view what);

// A T, or the Status that says why there is none. Has the shape of C++23's std::expected<T,
// Status>.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Both implicit: `return value;` and `return status;` are the point of the class.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {
    PICCHIO_CHECK(!std::get<1>(state_).ok());
  }
  // NOLINTEND(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return PICCHIO_CHECK(has_value()), std::get<0>(state_); }
  const T& value() const& { return PICCHIO_CHECK(has_value()), std::get<0>(state_); }
  T&& value() && { return PICCHIO_CHECK(has_value()), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Status& error() const { return PICCHIO_CHECK(!has_value()), std::get<1>(state_); }
  // The error, or OK where there is a value: what a caller that only passes failures on wants.
  Status status() const { return has_value() ? Status::Ok() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace picchio

#define PICCHIO_CONCAT_INNER(a, b) a##b
#define PICCHIO_CONCAT(a, b) PICCHIO_CONCAT_INNER(a, b)

#define PICCHIO_RETURN_IF_ERROR(expression)                                        \
  do {                                                                             \
    if (::picchio::Status picchio_status_ = (expression); !picchio_status_.ok()) { \
      return picchio_status_;                                                      \
    }                                                                              \
  } while (false)

// PICCHIO_ASSIGN_OR_RETURN(auto file, File::Open(path));
#define PICCHIO_ASSIGN_OR_RETURN(lhs, expression) \
  PICCHIO_ASSIGN_OR_RETURN_INNER(PICCHIO_CONCAT(picchio_result_, __LINE__), lhs, expression)
#define PICCHIO_ASSIGN_OR_RETURN_INNER(result, lhs, expression) \
  auto result = (expression);                                   \
  if (!result.has_value()) return result.error();               \
  lhs = std::move(result).value()
