#include "format/safetensors.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const picchio::MemoryFile file("input", std::as_bytes(std::span(data, size)));
  auto header = picchio::ReadSafetensorsHeader(file);
  if (!header.has_value()) return 0;
  // What is accepted lies inside the file, and can be written and read again.
  for (const picchio::TensorInfo& tensor : header->tensors) {
    PICCHIO_CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
  }
  auto image = picchio::MakeSafetensorsHeader(header->tensors, 64);
  PICCHIO_CHECK(image.has_value());
  const uint64_t data_bytes = size - header->data_start;
  PICCHIO_CHECK(picchio::ParseSafetensorsHeader(std::string_view(*image).substr(8), image->size(),
                                                data_bytes, "again")
                    .has_value());
  return 0;
}
