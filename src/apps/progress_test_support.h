// What a command said, apart from how far it had come.
#pragma once

#include <regex>
#include <sstream>
#include <string>

namespace picchio {

// Standard error without the lines of progress.h, which a slow machine adds to any command, as
// "packing:  82 %  9 MB of 11 MB, 5 MB/s, 0.4 s left" is one.
inline std::string WithoutProgress(const std::string& err) {
  static const std::regex kProgress("[a-z ]+: +[0-9]+ %  .* of .*/s, .* left(; .*)?");
  std::istringstream lines(err);
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, kProgress)) said += line + "\n";
  }
  return said;
}

}  // namespace picchio
