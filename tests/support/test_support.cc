#include "support/test_support.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/sanitized.h"

#ifdef PICCHIO_SANITIZED
// Tests ask for memory that cannot be had, to see it refused; a sanitizer would end the program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace picchio {

Path TestData(std::string_view relative) { return Path(PICCHIO_TEST_DATA) / relative; }
Path BuildFile(std::string_view relative) { return Path(PICCHIO_BUILD_DIR) / relative; }

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "picchio-test-XXXXXX").string();
  PICCHIO_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadAll(const Path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << "cannot open " << path;
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return std::move(bytes).str();
}

void WriteAll(const Path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(out.flush()) << "cannot write " << path;
}

std::map<std::string, std::string> FolderContents(const Path& folder) {
  std::map<std::string, std::string> contents;
  if (!SomethingExists(folder)) return contents;
  const auto names = ListFiles(folder);
  EXPECT_OK(names);
  for (const std::string& name : *names) contents[name] = ReadAll(folder / name);
  return contents;
}

}  // namespace picchio
