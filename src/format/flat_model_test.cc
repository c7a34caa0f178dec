#include "format/flat_model.h"

#include <functional>

#include "format/flat_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TestStore SmallStore(uint32_t version) {
  TestStore store;
  store.version = version;
  store.hidden = store.moe_inter = 64;
  store.n_layers = 3;
  store.n_experts = 4;
  // 128 rows of 32 bytes and a scale, 64 rows of the same; with biases 128 + 64 floats.
  store.records[{1, 2}] = std::string(192 * 36, 'r');
  return store;
}

FlatModel ModelOf(const TestStore& store, const FlatIndex& index) {
  FlatModel model{.hidden_size = 64,
                  .num_experts = 4,
                  .experts_per_token = 2,
                  .intermediate_size = 64,
                  .moe_layers = {false, true, true},
                  .kind = PayloadKind::kInt4,
                  .has_biases = false,
                  .id = {},
                  .stores = {{"of_old.picchioflat", index.store_bytes(), Sha256Of("other")}}};
  if (store.version == 3) {
    std::copy_n(store.model_id.begin(), 16, model.id.bytes.begin());
  } else {
    model.stores.push_back({"a.picchioflat", index.store_bytes(), index.superblock().index_sha256});
  }
  return model;
}

FlatIndex IndexOf(const TestStore& store) {
  const std::string bytes = store.Bytes();
  return FlatIndex::Read(MemoryFile("a", std::as_bytes(std::span(bytes)))).value();
}

TEST(FlatModel, TakesTheModelsOwnStore) {
  for (const uint32_t version : {2, 3}) {
    const TestStore store = SmallStore(version);
    const FlatIndex index = IndexOf(store);
    FlatModel model = ModelOf(store, index);
    EXPECT_OK(CheckFlatModel(index, model, false, "a.picchioflat"));
    model.has_biases = true;  // They stay in the dense part.
    EXPECT_OK(CheckFlatModel(index, model, false, "a.picchioflat"));
  }
}

TEST(FlatModel, RefusesTheStoreOfAnotherByName) {
  struct Case {
    std::function<void(FlatModel&)> edit;
    const char* message;
  };
  const Case cases[] = {
      {[](FlatModel& m) { m.hidden_size = 128; }, "another model: hidden is 64, the model has 128"},
      {[](FlatModel& m) { m.moe_layers.push_back(true); }, "n_layers is 3, the model has 4"},
      {[](FlatModel& m) { m.num_experts = 8; }, "n_experts is 4, the model has 8"},
      {[](FlatModel& m) { m.experts_per_token = 1; }, "topk is 2, the model has 1"},
      {[](FlatModel& m) { m.intermediate_size = 32; }, "moe_inter is 64, the model has 32"},
      {[](FlatModel& m) { m.kind = PayloadKind::kMxfp4; },
       "another quantisation: it holds INT4, the model MXFP4"},
      {[](FlatModel& m) { m.moe_layers[1] = false; }, "experts in layer 1"},
  };
  for (const uint32_t version : {2, 3}) {
    const TestStore store = SmallStore(version);
    const FlatIndex index = IndexOf(store);
    for (const Case& tested : cases) {
      FlatModel model = ModelOf(store, index);
      tested.edit(model);
      // Trust is about the conversion, nothing else.
      EXPECT_THAT(CheckFlatModel(index, model, true, "a.picchioflat"),
                  Fails(Code::kCorrupt, tested.message));
    }
  }
}

TEST(FlatModel, Version3IsTiedByTheModelsId) {
  const TestStore store = SmallStore(3);
  const FlatIndex index = IndexOf(store);
  FlatModel model = ModelOf(store, index);
  model.id.bytes[15] ^= 1;
  EXPECT_THAT(CheckFlatModel(index, model, true, "a.picchioflat"),
              Fails(Code::kCorrupt,
                    "a.picchioflat is the store of another conversion: its model id is "
                    "30313233343536373839616263646566, the model's "
                    "30313233343536373839616263646567"));
}

TEST(FlatModel, Version2IsTiedByTheManifest) {
  const TestStore store = SmallStore(2);
  const FlatIndex index = IndexOf(store);
  FlatModel model = ModelOf(store, index);
  model.stores[1].bytes += 4096;
  EXPECT_THAT(CheckFlatModel(index, model, false, "a.picchioflat"),
              Fails(Code::kUnsupported, "not a store that the model's manifest lists"));
  EXPECT_OK(CheckFlatModel(index, model, true, "a.picchioflat"));
  model.stores.clear();
  EXPECT_THAT(CheckFlatModel(index, model, false, "a.picchioflat"),
              Fails(Code::kUnsupported, index.superblock().index_sha256.Hex()));
}

TEST(FlatModel, RefusesBiasesThatTheModelHasNot) {
  TestStore store = SmallStore(3);
  store.flags = 1;
  store.records[{1, 2}].resize(192 * 40);
  const FlatIndex index = IndexOf(store);
  FlatModel model = ModelOf(store, index);
  EXPECT_THAT(CheckFlatModel(index, model, false, "a.picchioflat"),
              Fails(Code::kCorrupt, "its experts have biases"));
  model.has_biases = true;
  EXPECT_OK(CheckFlatModel(index, model, false, "a.picchioflat"));
}

}  // namespace
}  // namespace picchio
