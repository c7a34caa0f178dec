#include "kernels/limits.h"

#include <cmath>
#include <cstring>

#include "kernels/kernel_tables.h"

namespace picchio {
namespace {

uint32_t Read(const std::byte* data, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, data + i, sizeof(word));
    sum += word;
  }
  return sum;
}

// Hides from the compiler what a value is: no round can be left out or done at once for all.
template <typename T>
void Hide(T& value) {
  asm volatile("" : "+r"(value));
}

constexpr size_t kChains = 8;

uint32_t MultiplyBytes(size_t rounds) {
  uint32_t sums[kChains] = {};
  int32_t a = 3;
  const int32_t b = 2;
  for (size_t i = 0; i < rounds; ++i) {
    for (uint32_t& sum : sums) {
      Hide(a);
      sum += static_cast<uint32_t>(a * b);
      Hide(sum);  // Or the compiler would do several at once, which is another set's work.
    }
  }
  uint32_t all = 0;
  for (const uint32_t sum : sums) all += sum;
  return all;
}

float MultiplyFloats(size_t rounds) {
  float sums[kChains];
  for (size_t c = 0; c < kChains; ++c) sums[c] = static_cast<float>(c);
  for (size_t i = 0; i < rounds; ++i) {
    for (float& sum : sums) sum = std::fma(0.5F, 1.0F, sum);
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}

}  // namespace

constinit const CoreLimits kScalarLimits = {.instruction_set = InstructionSet::kScalar,
                                            .read = Read,
                                            .multiply_bytes = MultiplyBytes,
                                            .integer_ops = 2 * kChains,
                                            .multiply_floats = MultiplyFloats,
                                            .float_ops = 2 * kChains,
                                            .float_chains = kChains};

const CoreLimits* LimitsFor(InstructionSet set) {
  if (!CpuHas(set)) return nullptr;
  switch (set) {
    case InstructionSet::kScalar:
      return &kScalarLimits;
#if defined(__x86_64__)
    case InstructionSet::kAvx2:
      return &kAvx2Limits;
    case InstructionSet::kAvxVnni:
      return &kAvxVnniLimits;
    case InstructionSet::kAvx512:
      return &kAvx512Limits;
#elif defined(__aarch64__)
    case InstructionSet::kNeon:
      return &kNeonLimits;
#endif
    default:
      return nullptr;
  }
}

}  // namespace picchio
