#include "kernels/choose_kernels.h"

#include <string>

namespace picchio {
namespace {

std::string AvailableNames() {
  std::string names;
  for (const Kernels* kernels : AvailableKernels()) {
    if (!names.empty()) names += ", ";
    names += InstructionSetName(kernels->instruction_set);
  }
  return names;
}

}  // namespace

Result<const Kernels*> ChooseKernels(std::string_view name) {
  if (name.empty()) return &BestKernels();
  for (const InstructionSet set : kInstructionSets) {
    if (InstructionSetName(set) != name) continue;
    if (const Kernels* kernels = KernelsFor(set)) return kernels;
    return Error(Code::kUnsupported, "instruction set {}: this machine does not run it; it runs {}",
                 name, AvailableNames());
  }
  return Error(Code::kInvalidArgument, "instruction set '{}' is not known; this machine runs {}",
               name, AvailableNames());
}

}  // namespace picchio
