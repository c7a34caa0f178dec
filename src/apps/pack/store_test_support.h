// Fixture models with their experts as safetensors, and the stores that they should come to.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "apps/convert/checkpoint_test_support.h"
#include "apps/convert/convert.h"
#include "apps/model_folder.h"
#include "apps/run/store_models_test_support.h"
#include "support/test_support.h"

namespace picchio {

// The fixture converted, with both forms of its experts.
inline void MakeModel(std::string_view fixture, std::optional<PayloadKind> kind,
                      const Path& folder) {
  ConversionOptions options{.experts = kind, .keep_safetensors = true};
  ASSERT_OK(Convert(FixtureCheckpoint(fixture), folder, options, 2, kGoOn));
}

// The same without a store, as if none had been made.
inline void MakeModelWithoutStore(std::string_view fixture, std::optional<PayloadKind> kind,
                                  const Path& folder) {
  MakeModel(fixture, kind, folder);
  std::filesystem::remove(folder / "experts.picchioflat");
  ASSERT_OK_AND_ASSIGN(Manifest manifest, LoadManifest(folder));
  manifest.stores.clear();
  ASSERT_OK_AND_ASSIGN(const std::string text, SerializeManifest(manifest));
  WriteAll(folder / kManifestName, text);
}

// The bytes of the store of the model's first `num_layers` layers.
inline std::string ExpectedStore(const Path& folder, uint32_t version, uint32_t block_size,
                                 uint32_t num_layers = 1000) {
  TestStore store = StoreWriter(folder).Make(version);
  store.block_size = block_size;
  std::erase_if(store.records, [&](const auto& r) { return r.first.first >= num_layers; });
  return store.Bytes();
}

// Whether the model takes this store, without being told to trust it.
inline bool Accepted(const Path& model, const Path& store) {
  const auto folder = OpenModelFolder(model);
  EXPECT_OK(folder);
  const auto file = File::OpenForRead(store);
  EXPECT_OK(file);
  const auto index = FlatIndex::Read(*file);
  EXPECT_OK(index);
  return CheckFlatModel(*index, FlatModelOf(*folder), false, "store").ok();
}

}  // namespace picchio
