#include "experts/eviction_policy.h"

namespace picchio {

std::string_view CachePolicyName(CachePolicy policy) {
  switch (policy) {
    case CachePolicy::kReuse:
      return "reuse";
    case CachePolicy::kLru:
      return "lru";
    case CachePolicy::kLfu:
      return "lfu";
    case CachePolicy::kLru2:
      return "lru2";
    case CachePolicy::kLayer:
      break;
  }
  return "layer";
}

std::optional<CachePolicy> FindCachePolicy(std::string_view name) {
  for (const CachePolicy policy : kCachePolicies) {
    if (CachePolicyName(policy) == name) return policy;
  }
  return std::nullopt;
}

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(CachePolicy policy) {
  switch (policy) {
    case CachePolicy::kReuse:
      return MakeReusePolicy();
    case CachePolicy::kLru:
      return MakeLruPolicy();
    case CachePolicy::kLfu:
      return MakeLfuPolicy();
    case CachePolicy::kLru2:
      return MakeLru2Policy();
    case CachePolicy::kLayer:
      break;
  }
  return MakeLayerPolicy();
}

}  // namespace picchio
