// One line of `picchio doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace picchio {

enum class Health : uint8_t { kOk, kCouldBeBetter, kWillNotWork };

constexpr std::string_view HealthName(Health health) {
  return health == Health::kOk              ? "ok"
         : health == Health::kCouldBeBetter ? "could be better"
                                            : "will not work";
}

struct Finding {
  std::string subject{};  // "kernel", "huge pages".
  Health health = Health::kOk;
  std::string found{};   // A sentence without its full stop.
  std::string remedy{};  // The command or the step that would mend it; empty where there is none.
};

}  // namespace picchio
