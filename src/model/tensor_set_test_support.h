// Tensors to be changed at will and written as a safetensors file.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "format/dtype.h"
#include "format/float16.h"
#include "format/int8.h"
#include "format/safetensors.h"
#include "format/tensor_directory.h"
#include "model/expected_tensors.h"
#include "model/fixture_test_support.h"
#include "support/test_support.h"

namespace picchio {

struct TensorSet {
  struct Tensor {
    Dtype dtype = Dtype::kF32;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;

    template <typename T>
    std::span<T> as() {
      return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
  };
  std::map<std::string, Tensor> tensors;

  // The dense tensors of a fixture, as stored.
  static TensorSet DenseOf(const Fixture& fixture) {
    TensorSet set;
    for (const ExpectedTensor& expected : ExpectedDenseTensors(fixture.config)) {
      const TensorEntry* entry = fixture.tensors.Get(expected.name).value();
      set.tensors[expected.name] = {entry->dtype, entry->shape, fixture.Bytes(expected.name)};
    }
    return set;
  }

  Tensor& operator[](const std::string& name) { return tensors.at(name); }

  TensorDirectory Write(const TemporaryFolder& folder) const {
    std::vector<TensorInfo> infos;
    for (const auto& [name, tensor] : tensors) infos.push_back({name, tensor.dtype, tensor.shape});
    std::string file = MakeSafetensorsHeader(infos, 64).value();
    for (const TensorInfo& info : infos) {
      const std::vector<std::byte>& bytes = tensors.at(info.name).bytes;
      EXPECT_EQ(info.offset, file.size());
      file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    const std::string name = "dense.safetensors";
    WriteAll(folder / name, file);
    return TensorDirectory::OpenFiles(folder.path(), {{name}}).value();
  }
};

inline std::vector<float> Widened(const TensorSet::Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / DtypeBytes(tensor.dtype));
  WidenToF32(tensor.dtype, tensor.bytes, values);
  return values;
}

inline TensorSet::Tensor F32Tensor(std::vector<uint64_t> shape, std::span<const float> values) {
  TensorSet::Tensor tensor{Dtype::kF32, std::move(shape), {}};
  const auto bytes = std::as_bytes(values);
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

// Replaces a matrix by its INT8 codes and adds NAME.qs; returns the values that they stand for.
inline std::vector<float> MakeInt8(TensorSet& set, const std::string& name) {
  TensorSet::Tensor& tensor = set[name];
  const uint64_t rows = tensor.shape[0];
  const uint64_t cols = tensor.shape[1];
  std::vector<int8_t> codes(rows * cols);
  std::vector<float> scales(rows);
  QuantError error;
  EXPECT_OK(QuantizeInt8(tensor.dtype, tensor.bytes, cols, 0, codes, scales, error));
  std::vector<float> decoded(rows * cols);
  for (uint64_t r = 0; r < rows; ++r) {
    DecodeInt8Row({codes.data() + r * cols, cols}, scales[r], {decoded.data() + r * cols, cols});
  }
  const auto bytes = std::as_bytes(std::span(codes));
  tensor.dtype = Dtype::kI8;
  tensor.bytes.assign(bytes.begin(), bytes.end());
  set.tensors[name + ".qs"] = F32Tensor({rows}, scales);
  return decoded;
}

}  // namespace picchio
