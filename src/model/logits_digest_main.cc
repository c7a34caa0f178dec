// logits_digest FOLDER...: for each fixture, what the whole forward pass computes with every table
// of kernels that this machine runs, as a digest of the bits of all logits. Needs no library beyond
// the headers of two, so that it can be cross-compiled and run by an emulator (scripts/test-arm64).
// Exit code 0: all tables agree, 1: not, 2: usage.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bit_digest_test_support.h"
#include "model/fixture_test_support.h"

namespace picchio {
namespace {

std::string KindName(PayloadKind kind) {
  if (kind == PayloadKind::kInt4) return "int4";
  return kind == PayloadKind::kMxfp4 ? "mxfp4" : "bf16";
}

// A prompt in one span, then its last tokens again one by one, as in decoding.
uint64_t DigestOf(const Fixture& fixture, const ExpertRecords& experts, Compute compute,
                  const Kernels& kernels) {
  constexpr size_t kDecoded = 4;
  const std::vector<int32_t> prompt = fixture.Golden<int32_t>("p24.ids");
  const TestEngine engine =
      TestEngine::Make(fixture, experts, {.compute = compute, .kernels = &kernels});
  KvCache kv = engine.NewKv(static_cast<uint32_t>(prompt.size() + kDecoded));
  BitDigest digest;
  digest.Add(engine.Step(kv, prompt));
  for (size_t i = 0; i < kDecoded; ++i) digest.Add(engine.Step(kv, std::span(prompt).last(1)));
  return digest.value();
}

// Prints "NAME KIND COMPUTE: DIGEST"; false where the tables differ.
bool Report(const Fixture& fixture, const std::string& name, PayloadKind kind, Compute compute) {
  const ExpertRecords experts = MakeRecords(fixture, kind);
  const std::string what =
      name + " " + KindName(kind) + " " + (compute == Compute::kF32 ? "f32" : "int8");
  uint64_t first = 0;
  for (const Kernels* kernels : AvailableKernels()) {
    const uint64_t digest = DigestOf(fixture, experts, compute, *kernels);
    if (kernels->instruction_set == InstructionSet::kScalar) {
      first = digest;
      std::printf("%s: %016llx\n", what.c_str(), static_cast<unsigned long long>(digest));
    } else if (digest != first) {
      std::printf("%s: %s gives %016llx\n", what.c_str(),
                  InstructionSetName(kernels->instruction_set).data(),
                  static_cast<unsigned long long>(digest));
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace picchio

// NOLINTNEXTLINE(bugprone-exception-escape): it would end the test, as it should.
int main(int argc, char** argv) {
  using namespace picchio;  // NOLINT(google-build-using-namespace): a program's main.
  if (argc < 2) {
    std::fprintf(stderr, "usage: logits_digest FOLDER...\n");
    return 2;
  }
  bool equal = true;
  for (int i = 1; i < argc; ++i) {
    const Path folder(argv[i]);
    const Fixture fixture = Fixture::Open(folder);
    const PayloadKind kind =
        fixture.config.checkpoint_experts_mxfp4 ? PayloadKind::kMxfp4 : PayloadKind::kInt4;
    for (const auto& [payload, compute] :
         {std::pair(kind, Compute::kInt8), std::pair(kind, Compute::kF32),
          std::pair(PayloadKind::kBf16, Compute::kInt8)}) {
      equal &= Report(fixture, folder.filename().string(), payload, compute);
    }
  }
  return equal ? 0 : 1;
}
