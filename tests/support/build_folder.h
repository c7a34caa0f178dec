// A fresh folder in the build tree: where /tmp is in memory, unbuffered reads would go untested.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/test_support.h"

namespace picchio {

// Removed with everything in it at the end of the scope.
class BuildTemporaryFolder {
 public:
  BuildTemporaryFolder() {
    std::string pattern = BuildFile("picchio-test-XXXXXX").string();
    PICCHIO_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~BuildTemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BuildTemporaryFolder(const BuildTemporaryFolder&) = delete;
  BuildTemporaryFolder& operator=(const BuildTemporaryFolder&) = delete;

  const Path& path() const { return path_; }
  Path operator/(std::string_view name) const { return path_ / Path(name); }

 private:
  Path path_;
};

}  // namespace picchio
