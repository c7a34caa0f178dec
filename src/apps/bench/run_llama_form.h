// The measurement of llama-bench, in its terms: prompts of so many random tokens (pp512), texts of
// so many random tokens after an empty context (tg128), each a few times on a model that stays
// loaded. For scripts that compare engines; the fields have llama-bench's names.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run/engine.h"
#include "base/status.h"

namespace picchio {

struct LlamaBenchOptions {
  std::vector<uint32_t> prompts = {512};  // Of each a test pp; 0 is none.
  std::vector<uint32_t> texts = {128};    // Of each a test tg; 0 is none.
  int repetitions = 5;
};

struct LlamaBenchTest {
  uint32_t prompt_tokens = 0;  // One of the two is 0.
  uint32_t text_tokens = 0;
  std::string time{};                  // When it began, "2026-01-31T12:00:00Z".
  std::vector<uint64_t> samples_ns{};  // Of each repetition.

  std::string Name() const;  // "pp512", "tg128".
};

// Of one number of threads; what the fields need beside the samples.
struct LlamaBenchRun {
  std::string model{};
  std::string model_type{};
  uint64_t model_bytes = 0;
  uint64_t num_parameters = 0;
  uint32_t span = 0;  // Positions of a prompt that go through a layer together.
  int num_threads = 0;
  std::vector<LlamaBenchTest> tests{};
};

// Opens the model with `options`, whose context is set to what the tests need, warms up, and runs
// the tests. The expert cache begins empty and stays from test to test, as the page cache does for
// engines that map the file. Shows progress; `stop` ends it with kCancelled. kInvalidArgument where
// there is no test.
Result<LlamaBenchRun> RunLlamaBench(const Path& model, EngineOptions options,
                                    const LlamaBenchOptions& tests, const std::atomic<bool>& stop);

enum class LlamaBenchFormat : uint8_t { kMd, kCsv, kJson, kJsonl };

// As llama-bench prints them: fields that mean nothing here (GPU layers, mmap and the like) are
// left out. csv has no samples, nor has its own.
std::string LlamaBenchText(const std::vector<LlamaBenchRun>& runs, LlamaBenchFormat format);

}  // namespace picchio
