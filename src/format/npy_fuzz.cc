#include "format/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const picchio::MemoryFile file("input", std::as_bytes(std::span(data, size)));
  const auto array = picchio::NpyArray::Read(file);
  if (array.has_value()) (void)array->Values<float>().has_value();
  return 0;
}
