#include "apps/bench/spread_json.h"

namespace picchio {

Json SpreadJson(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"greatest", spread.greatest}};
}

}  // namespace picchio
