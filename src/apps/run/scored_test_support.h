// An engine that has scored some tokens, for tests that compare the bits of logits.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/run/engine.h"
#include "support/test_support.h"

namespace picchio {

// Its logits, and what the engine said.
struct Scored {
  static EngineOptions Options(const StorageOptions& storage = {},
                               std::optional<uint32_t> slots_per_layer = {}) {
    EngineOptions options{.num_threads = 2, .storage = storage};
    options.memory = {.context = 64, .slots_per_layer = slots_per_layer, .prefill_span = 8};
    return options;
  }

  Scored() = default;  // Without an engine yet.

  explicit Scored(const Path& folder, const StorageOptions& storage = {},
                  std::optional<uint32_t> slots_per_layer = {})
      : Scored(folder, Options(storage, slots_per_layer)) {}

  Scored(const Path& folder, EngineOptions options) {
    options.notice = [this](std::string_view said) { notices.emplace_back(said); };
    auto opened = Engine::Open(folder, options);
    EXPECT_OK(opened);
    if (!opened.has_value()) return;
    engine = std::move(*opened);
    EXPECT_OK(Score());
  }

  explicit Scored(std::unique_ptr<Engine> loaded) : engine(std::move(loaded)) {
    EXPECT_OK(Score());
  }

  // Again from the beginning.
  Status Score(const RunHooks& hooks = {}) {
    const std::vector<int32_t> ids = {1, 5, 9, 2, 30, 7, 11, 4, 17, 3, 8, 25};
    logits.clear();
    PICCHIO_ASSIGN_OR_RETURN(Session session, engine->NewSession());
    return session
        .Score(
            ids, 0,
            [&](uint32_t, std::span<const float> row) {
              logits.insert(logits.end(), row.begin(), row.end());
            },
            hooks)
        .status();
  }

  bool SameBits(const Scored& other) const {
    return !logits.empty() && logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
  }

  std::vector<std::string> notices;
  std::unique_ptr<Engine> engine;
  std::vector<float> logits;
};

}  // namespace picchio
