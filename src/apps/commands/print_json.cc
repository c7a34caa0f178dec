#include "apps/commands/print_json.h"

#include <cstdio>
#include <string>

namespace picchio {

void PrintJson(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace picchio
