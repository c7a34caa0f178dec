#include "apps/inspect/inspect_store.h"

#include "apps/pack/store_test_support.h"
#include "base/json.h"

namespace picchio {
namespace {

// Figures of the format's page: an entry has 24 bytes in version 2 and 64 in version 3.
TEST(InspectStore, SaysWhatIsInTheStore) {
  TemporaryFolder folder;
  TestStore store{.version = 3,
                  .block_size = 8192,
                  .hidden = 64,
                  .n_layers = 3,
                  .n_experts = 4,
                  .topk = 2,
                  .moe_inter = 32,
                  .payload_kind = 2};
  const std::string record(3 * 64 * 32 * 2, 'x');
  store.records = {{{0, 1}, record}, {{2, 0}, record}, {{2, 3}, record}};
  WriteAll(folder / "store", store.Bytes());
  const auto index = InspectStore(folder / "store");
  ASSERT_OK(index);
  ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(StoreJson(*index), "report"));
  EXPECT_EQ(json["format"], 3);
  EXPECT_EQ(json["block_size"], 8192);
  EXPECT_EQ(json["kind"], "bf16");
  EXPECT_EQ(json["records"], 3);
  EXPECT_EQ(json["layers_with_experts"], 2);
  EXPECT_EQ(json["record_bytes"], 12288);
  EXPECT_EQ(json["padded_record_bytes"], 16384);
  EXPECT_EQ(json["index_bytes"], 3 * 4 * 64);
  EXPECT_EQ(json["data_offset"], 16384);
  EXPECT_EQ(json["bytes"], 16384 + 3 * 16384);
  EXPECT_EQ(json["model_id"], "30313233343536373839616263646566");
  const std::string table = StoreTable(*index);
  for (const char* part : {"version 3", "8.00 KiB", "3 in 2 layers, bf16", "12.0 KiB",
                           "30313233343536373839616263646566", "3 layers of 4 experts"}) {
    EXPECT_THAT(table, testing::HasSubstr(part));
  }
  WriteAll(folder / "store", store.Bytes() + "x");
  EXPECT_THAT(InspectStore(folder / "store"), Fails(Code::kCorrupt, "something follows"));
}

TEST(InspectStore, Version2HasNoModelId) {
  TemporaryFolder folder;
  TestStore store{.hidden = 64, .n_layers = 1, .n_experts = 1, .topk = 1, .moe_inter = 64};
  store.records[{0, 0}] = std::string(3 * 64 * 64 / 2 + 3 * 64 * 4, 'x');
  WriteAll(folder / "store", store.Bytes());
  const auto index = InspectStore(folder / "store");
  ASSERT_OK(index);
  ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(StoreJson(*index), "report"));
  EXPECT_FALSE(json.contains("model_id"));
  EXPECT_EQ(json["index_bytes"], 24);
  EXPECT_THAT(StoreTable(*index), testing::HasSubstr("tied to its model by the manifest"));
}

}  // namespace
}  // namespace picchio
