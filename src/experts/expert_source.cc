#include "experts/expert_source.h"

#include <fmt/core.h>

namespace picchio {

std::string ToString(ExpertKey key) {
  return fmt::format("layer {} expert {}", key.layer, key.expert);
}

}  // namespace picchio
