// What every test program shares: the repository's data, a folder of one's own, matchers for
// Status.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"

namespace picchio {

// A path under tests/data.
Path TestData(std::string_view relative);
// A path under the build folder, where data files that the build unpacks lie.
Path BuildFile(std::string_view relative);

// A fresh folder, removed with everything in it at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const Path& path() const { return path_; }
  Path operator/(std::string_view name) const { return path_ / Path(name); }

 private:
  Path path_;
};

// For what can be cancelled and is not.
inline const std::atomic<bool> kGoOn{false};

std::string ReadAll(const Path& path);
void WriteAll(const Path& path, std::string_view bytes);
// Every file of a folder by name; none where there is no such folder.
std::map<std::string, std::string> FolderContents(const Path& folder);

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}

// EXPECT_THAT(DoIt(), IsOk()); works for Status and Result<T>.
MATCHER(IsOk, "is ok") {
  const Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.ok();
}

// EXPECT_THAT(DoIt(), Fails(Code::kCorrupt, "row 3")): the code, and a part of the message.
MATCHER_P2(Fails, code, part, "fails with this code and a message that has this part") {
  const Status status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code && status.message().find(part) != std::string::npos;
}

}  // namespace picchio

#define ASSERT_OK(expression) ASSERT_THAT((expression), ::picchio::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT((expression), ::picchio::IsOk())

// ASSERT_OK_AND_ASSIGN(auto file, File::OpenForRead(path));
#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  ASSERT_OK_AND_ASSIGN_INNER(PICCHIO_CONCAT(picchio_test_result_, __LINE__), lhs, expression)
#define ASSERT_OK_AND_ASSIGN_INNER(result, lhs, expression)                  \
  auto result = (expression);                                                \
  ASSERT_TRUE(result.has_value()) << ::picchio::StatusOf(result).ToString(); \
  lhs = std::move(result).value()
