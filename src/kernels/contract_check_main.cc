// contract_check FOLDER: holds every table of kernels that this machine runs to the contract's
// vectors in FOLDER and to the scalar table, bit for bit. A program of its own without any library,
// so that it can be cross-compiled and run by an emulator (scripts/test-arm64). Exit code 0: all
// equal, 1: not, 2: usage.
#include <cstdio>

#include "kernels/contract_test_support.h"
#include "kernels/equality_test_support.h"
#include "kernels/kernels.h"

namespace picchio {
namespace {

// Prints the first few messages; returns how many there are.
size_t Report(const std::vector<std::string>& messages) {
  for (size_t i = 0; i < messages.size() && i < 20; ++i) std::printf("  %s\n", messages[i].c_str());
  return messages.size();
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
