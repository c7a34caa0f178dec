// The user's choice of an instruction set, by name.
#pragma once

#include <string_view>

#include "base/status.h"
#include "kernels/kernels.h"

namespace picchio {

// The table called `name` ("avx2"; see InstructionSetName), or the fastest where the name is empty.
// Fails with kInvalidArgument for a name that does not exist and with kUnsupported for one that
// this machine lacks; both messages list what there is.
Result<const Kernels*> ChooseKernels(std::string_view name);

}  // namespace picchio
