// manifest.json of a converted model: every tensor with its hash, every file with its size, and the
// model's id. docs/manifest.md shows the text.
//
// The text is canonical: one manifest has one spelling, fields in fixed order, lists sorted by name
// bytes, and a checksum over all bytes before it. So any change of the file is found, be it one
// bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/units.h"
#include "format/dtype.h"

namespace picchio {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr uint32_t kManifestVersion = 1;
// Some 300 bytes a tensor: room for a million of them.
inline constexpr uint64_t kMaxManifestBytes = 256_MiB;

// How a tensor's elements are coded. A quantised matrix and the tensor of its scales bear the same.
enum class TensorScheme : uint8_t {
  kNone,        // "none": elements of the tensor's dtype.
  kInt4Absmax,  // "int4_absmax", kInt4Mse "int4_mse": format/int4.h.
  kInt4Mse,
  kInt8,   // "int8_row": format/int8.h.
  kMxfp4,  // "mxfp4": format/mxfp4.h, as published.
};

std::string_view SchemeName(TensorScheme scheme);
// Elements that share a scale: 64 for INT4, 32 for MXFP4, 0 where it is the whole row or there is
// none.
uint32_t SchemeGroupSize(TensorScheme scheme);

struct ManifestTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;  // Of the stored elements: U8 for packed codes.
  std::vector<uint64_t> shape;
  TensorScheme scheme = TensorScheme::kNone;
  Sha256Digest sha256;  // Of the tensor's bytes as stored.
  std::string file;     // The container or store that holds it.
};

// A companion (config.json, tokenizer.json, ...), kept as published.
struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  Sha256Digest sha256;
};

// A safetensors file. Its tensors have their own hashes; this one covers the bytes before them.
struct ManifestContainer {
  std::string name;
  uint64_t bytes = 0;          // Of the whole file.
  Sha256Digest header_sha256;  // Of the length, the JSON and its padding.
};

// A .picchioflat store, whose index has the hash of every record.
struct ManifestStore {
  std::string name;
  uint64_t bytes = 0;
  Sha256Digest index_sha256;
};

// The same for two models exactly where all their tensors are the same: name, dtype, shape, scheme
// and bytes. Where they are stored does not matter.
struct ModelId {
  std::array<uint8_t, 16> bytes{};

  bool operator==(const ModelId&) const = default;
  std::string Hex() const;  // 32 lower-case digits.
};

// The first 16 bytes of the SHA-256 of the lines name \t dtype \t shape \t scheme \t sha256 \n,
// sorted by name bytes; a shape is spelled "[128,64]" (ShapeText), a SHA-256 as 64 lower-case
// digits.
ModelId ComputeModelId(std::span<const ManifestTensor> tensors);

struct Manifest {
  std::string architecture;  // As config.json names it: "Qwen3MoeForCausalLM".
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
  std::vector<ManifestContainer> containers;
  std::vector<ManifestStore> stores;

  ModelId model_id() const { return ComputeModelId(tensors); }
};

// The text of manifest.json; lists may be in any order. Fails with kInvalidArgument where a name
// stands twice, is not UTF-8 or has control bytes, where a file name is not a plain one, or where a
// tensor lies in a file that is neither a container nor a store.
Result<std::string> SerializeManifest(Manifest manifest);

// Reads such a text; lists come sorted. Fails with kUnsupported where it has another version, else
// with kCorrupt where it differs in any way from what SerializeManifest would write. `where` is
// what messages call the text.
Result<Manifest> ParseManifest(std::string_view text, std::string_view where);

// The manifest of the converted model in `folder`.
Result<Manifest> LoadManifest(const Path& folder);

}  // namespace picchio
