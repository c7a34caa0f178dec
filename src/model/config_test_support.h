// Published configs with one thing changed.
#pragma once

#include <functional>
#include <string_view>

#include "base/json.h"
#include "model/config.h"
#include "support/test_support.h"

namespace picchio {

inline Json Published(std::string_view name) {
  auto json = ParseJson(ReadAll(TestData("configs/" + std::string(name))), name);
  return std::move(json).value();
}

inline Result<ModelConfig> ParseChanged(std::string_view name,
                                        const std::function<void(Json&)>& change) {
  Json json = Published(name);
  change(json);
  return ModelConfig::Parse(json.dump(), "config.json");
}

inline Result<ModelConfig> Qwen(const std::function<void(Json&)>& change) {
  return ParseChanged("qwen3-30b-a3b.json", change);
}

inline Result<ModelConfig> GptOss(const std::function<void(Json&)>& change) {
  return ParseChanged("gpt-oss-20b.json", change);
}

}  // namespace picchio
