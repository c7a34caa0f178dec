// /proc and /sys of another machine, from tests/data/doctor.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "support/test_support.h"

namespace picchio {

class RecordedMachine {
 public:
  explicit RecordedMachine(std::string_view name) {
    std::ifstream lines(TestData("doctor") / (std::string(name) + ".tree"));
    EXPECT_TRUE(lines.is_open()) << name;
    Path file;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("|")) {
        Append(file, line.size() > 2 ? line.substr(2) : "");
      } else if (const size_t link = line.find(" -> "); link != std::string::npos) {
        file = Place(line.substr(0, link));
        std::filesystem::create_symlink(line.substr(link + 4), file);
      } else {
        const size_t equals = line.find(" = ");
        EXPECT_NE(equals, std::string::npos) << line;
        file = Place(line.substr(0, equals));
        Append(file, line.substr(equals + 3));
      }
    }
  }

  const Path& root() const { return folder_.path(); }
  // A file with other content, or one more.
  void Set(const std::string& path, const std::string& line) { WriteAll(Place(path), line + "\n"); }

 private:
  Path Place(const std::string& path) const {
    Path place = root() / Path(path).relative_path();
    std::filesystem::create_directories(place.parent_path());
    return place;
  }
  static void Append(const Path& file, const std::string& line) {
    std::ofstream(file, std::ios::app) << line << '\n';
  }

  TemporaryFolder folder_;
};

}  // namespace picchio
