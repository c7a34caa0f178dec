// contract_check FOLDER: holds every table of kernels that this machine runs to the contract's
// vectors in FOLDER and to the scalar table, bit for bit. A program of its own without any library,
// so that it can be cross-compiled and run by an emulator (scripts/test-arm64). Exit code 0: all
// equal, 1: not, 2: usage.
#include <cstdio>

#include "kernels/bit_digest_test_support.h"
#include "kernels/contract_test_support.h"
#include "kernels/equality_test_support.h"
#include "kernels/exp.h"
#include "kernels/kernels.h"
#include "kernels/rope.h"
#include "kernels/router.h"

namespace picchio {
namespace {

// Prints the first few messages; returns how many there are.
size_t Report(const std::vector<std::string>& messages) {
  for (size_t i = 0; i < messages.size() && i < 20; ++i) std::printf("  %s\n", messages[i].c_str());
  return messages.size();
}

// Numbers in [-2, 2), made of integers: the library's distributions may differ between machines.
std::vector<float> Numbers(std::mt19937& random, size_t n) {
  std::vector<float> numbers(n);
  for (float& number : numbers) {
    number = static_cast<float>(static_cast<int32_t>(random() >> 8) - (1 << 23)) * 0x1p-22F;
  }
  return numbers;
}

uint64_t DigestOfTheRest(const Kernels& kernels) {
  BitDigest digest;
  for (uint64_t bits = 0; bits < 0xff800000; bits += 65521) {
    float x;
    const auto low = static_cast<uint32_t>(bits);
    std::memcpy(&x, &low, sizeof(x));
    if (x == x) digest.Add(std::vector<float>{Exp(x), Sigmoid(x)});
  }
  const YarnParameters yarn{.factor = 32,
                            .original_max_positions = 4096,
                            .truncate = false,
                            .attention_factor = YarnAttentionFactor(32)};
  for (const RopeTable& table : {RopeTable(1e6, 128), RopeTable(150000, 64, yarn)}) {
    std::vector<float> cos(table.head_dim() / 2);
    std::vector<float> sin(table.head_dim() / 2);
    for (size_t position = 0; position < 1 << 20; position += 4093) {
      table.CosSin(position, cos.data(), sin.data());
      digest.Add(cos);
      digest.Add(sin);
    }
  }
  std::mt19937 random(1);
  for (const auto kind : {RouterWeights::kSoftmaxOverChosen, RouterWeights::kSoftmaxOverAll}) {
    std::vector<uint32_t> ids(8);
    std::vector<float> weights(8);
    RouteTopK(Numbers(random, 128), kind, ids, weights);
    digest.Add(weights);
  }
  constexpr size_t kHeads = 5;
  constexpr size_t kDim = 80;
  constexpr size_t kPositions = 300;
  const auto q = Numbers(random, kHeads * kDim);
  const auto kv = Numbers(random, 2 * kPositions * kDim);
  const auto sinks = Numbers(random, kHeads);
  std::vector<float> out(kHeads * kDim);
  std::vector<float> scratch(AttentionScratchFloats(kHeads, kDim));
  kernels.attention({.q = q.data(),
                     .num_heads = kHeads,
                     .head_dim = kDim,
                     .first_position = 40,
                     .position = kPositions - 1,
                     .scale = AttentionScale(kDim),
                     .sinks = sinks.data(),
                     .kv = {kv.data(), kv.data() + kPositions * kDim, kDim, kPositions},
                     .out = out.data()},
                    scratch.data());
  digest.Add(out);
  kernels.swiglu(kv.data(), kHeads * kDim / 2, out.data());
  digest.Add(out);
  kernels.swiglu_clamped(kv.data(), kHeads * kDim / 2, 1.5F, out.data());
  digest.Add(out);
  return digest.value();
}

int Run(const char* folder) {
  size_t num_faults = 0;
  for (const Kernels* kernels : AvailableKernels()) {
    size_t num_compared = 0;
    size_t num_differ = 0;
    for (const size_t n : kContractSizes) {
      const ContractVectors vectors(folder, n);
      const ContractCheck check(*kernels, vectors);
      num_compared += check.num_compared();
      num_differ += Report(check.messages());
    }
    const EqualityCheck equality(*kernels, *KernelsFor(InstructionSet::kScalar));
    num_differ += Report(equality.messages());
    std::printf("%s: %zu values of the contract compared, %zu differences\n",
                InstructionSetName(kernels->instruction_set).data(), num_compared, num_differ);
    num_faults += num_differ;
  }
  std::printf("digest of the rest: %016llx\n",
              static_cast<unsigned long long>(DigestOfTheRest(BestKernels())));
  return num_faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace picchio

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: contract_check FOLDER\n");
    return 2;
  }
  return picchio::Run(argv[1]);
}
