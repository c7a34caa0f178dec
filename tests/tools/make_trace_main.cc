// make_trace SKEW LOCALITY TOPIC FILE: the trace of a made-up text, to try cache policies on: 500
// passes through 12 layers of 128 experts, 8 at a time. The expert of rank r is drawn with weight
// r^-SKEW; each is kept for the next pass with the chance LOCALITY; after TOPIC passes (0: never) a
// quarter of the ranks changes.
#include <cstdio>
#include <cstdlib>

#include "base/atomic_file.h"
#include "experts/trace_test_support.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("make_trace SKEW LOCALITY TOPIC FILE\n", stderr);
    return 2;
  }
  const picchio::AccessTrace trace =
      picchio::MakeRouting({.layers = 12,
                            .experts = 128,
                            .experts_per_token = 8,
                            .passes = 500,
                            .skew = std::strtod(argv[1], nullptr),
                            .locality = std::strtod(argv[2], nullptr),
                            .topic_passes = std::atoi(argv[3])});
  const picchio::Status status =
      picchio::WriteFileAtomically(argv[4], picchio::SerializeTrace(trace));
  if (!status.ok()) std::fprintf(stderr, "make_trace: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
