// Converted models with aligned stores beside them, for tests. A store is joined from the
// container's tensors as docs/format.md says and written by format/flat_test_support.h, so nothing
// of it comes from the code that reads it.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "apps/model_folder.h"
#include "base/atomic_file.h"
#include "format/flat_test_support.h"
#include "support/test_support.h"

namespace picchio {

class StoreWriter {
 public:
  explicit StoreWriter(const Path& folder) : model_(OpenModelFolder(folder).value()) {}

  TestStore Make(uint32_t version) const {
    TestStore store;
    store.version = version;
    store.hidden = model_.config.hidden_size;
    store.n_layers = model_.config.num_hidden_layers;
    store.n_experts = model_.config.num_experts;
    store.topk = model_.config.experts_per_token;
    store.moe_inter = model_.config.moe_intermediate_size;
    const ModelId id = model_.manifest.model_id();
    store.model_id = std::string(id.bytes.begin(), id.bytes.end());
    for (uint32_t layer = 0; layer < store.n_layers; ++layer) {
      if (!model_.config.layers[layer].moe) continue;
      for (uint32_t expert = 0; expert < store.n_experts; ++expert) {
        store.records[{layer, expert}] = Record(store, layer, expert);
      }
    }
    return store;
  }

 private:
  std::string Tensor(const std::string& name) const {
    const TensorEntry* entry = model_.tensors.Get(name).value();
    std::string bytes(entry->bytes, '\0');
    EXPECT_OK(model_.tensors.Read(*entry, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  // A row of a bias, which the fixtures have as BF16, as F32.
  std::string Bias(const std::string& name, uint32_t expert, uint64_t rows) const {
    const std::string row = Tensor(name).substr(expert * rows * 2, rows * 2);
    std::string wide;
    for (size_t i = 0; i < row.size(); i += 2) wide += std::string(2, '\0') + row.substr(i, 2);
    return wide;
  }

  std::string Record(TestStore& store, uint32_t layer, uint32_t expert) const {
    const std::string experts = fmt::format("model.layers.{}.mlp.experts.", layer);
    std::string record;
    const auto append = [&](const std::string& part) {
      if (store.version == 3) record.resize((record.size() + 63) / 64 * 64);
      record += part;
    };
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      const std::string name = fmt::format("{}{}.{}", experts, matrix, expert);
      if (model_.tensors.Find(name + ".qs") != nullptr) {
        append(Tensor(name));
        append(Tensor(name + ".qs"));
      } else if (model_.tensors.Find(name + ".blocks") != nullptr) {
        store.payload_kind = 1;
        append(Tensor(name + ".blocks"));
        append(Tensor(name + ".scales"));
      } else {
        store.payload_kind = 2;
        append(Tensor(name));
      }
    }
    if (store.version == 3 && model_.config.expert_bias) {
      store.flags = 1;
      append(Bias(experts + "gate_up_proj_bias", expert, uint64_t{2} * store.moe_inter));
      append(Bias(experts + "down_proj_bias", expert, store.hidden));
    }
    return record;
  }

  ModelFolder model_;
};

// Lists the store with these bytes in the manifest of `folder`.
inline void ListStore(const Path& folder, const std::string& name, const std::string& bytes) {
  Manifest manifest = LoadManifest(folder).value();
  ManifestStore listing{.name = name, .bytes = bytes.size(), .index_sha256 = {}};
  std::memcpy(listing.index_sha256.bytes.data(), bytes.data() + 64, 32);
  manifest.stores.push_back(listing);
  const std::string text = SerializeManifest(std::move(manifest)).value();
  EXPECT_OK(WriteFileAtomically(folder / kManifestName, text));
}

// Flips a bit in every third record of the store with these bytes; returns how many.
inline size_t DamageEveryThirdRecord(const TestStore& store, std::string& bytes) {
  size_t count = 0;
  size_t place = 0;
  const size_t padded = TestStore::Padded(store.records.begin()->second, store.block_size).size();
  const size_t first = bytes.size() - store.records.size() * padded;
  for (const auto& [key, record] : store.records) {
    if (place++ % 3 != 0) continue;
    char& byte = bytes[first + (place - 1) * padded + record.size() * (count % 5) / 5];
    byte = static_cast<char>(byte ^ 1 << count % 8);
    ++count;
  }
  return count;
}

}  // namespace picchio
