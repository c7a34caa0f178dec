#include "apps/pack/store_listing.h"

#include <algorithm>

#include "apps/pack/pack.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/verify.h"

namespace picchio {
namespace {

// A model whose store is about to be replaced by one with larger blocks, of which a copy is at
// hand.
class ListedStores : public testing::Test {
 protected:
  void SetUp() override {
    MakeModel("qwen3_moe_long", std::nullopt, model_);
    old_bytes_ = ReadAll(store_);
    manifest_ = ReadAll(model_ / kManifestName);
    const auto made = Pack(model_, {.output = folder_ / "new", .block_size = 16384}, 2, kGoOn);
    ASSERT_OK(made);
    made_ = *made;
    ASSERT_EQ(made_.version, RecordVersion::kV2);
    new_bytes_ = ReadAll(folder_ / "new");
    WriteAll(model_ / kManifestName, manifest_);  // As it was before any of this.
    ASSERT_FALSE(Accepted(model_, folder_ / "new"));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const Manifest manifest = LoadManifest(model_).value();
    for (const ManifestStore& store : manifest.stores) {
      names.push_back(store.name);
    }
    std::ranges::sort(names);
    return names;
  }
  Status Announce(const StoreListing& listing) const {
    return listing.Announce(made_.store_bytes, made_.index_sha256).status();
  }
  Status Confirm(const StoreListing& listing) const {
    return listing.Confirm(made_.store_bytes, made_.index_sha256);
  }
  // What the folder holds is a store that the model takes, and whole.
  void ExpectTaken() const {
    EXPECT_TRUE(Accepted(model_, store_));
    EXPECT_OK(VerifyModel(model_, 2, kGoOn));
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path store_ = model_ / "experts.picchioflat";
  const StoreListing listing_{model_, "experts.picchioflat"};
  std::string old_bytes_;
  std::string new_bytes_;
  std::string manifest_;
  PackReport made_;
};

// The table in the header, line by line: wherever a pack that replaces a store is killed, the store
// in the folder is a listed one.
TEST_F(ListedStores, KilledAtAnyStepTheStoreThatIsThereIsListed) {
  ASSERT_OK(listing_.CheckWritable());
  EXPECT_EQ(ReadAll(model_ / kManifestName), manifest_);
  ExpectTaken();  // Before the pending entry.

  ASSERT_OK(Announce(listing_));
  const std::vector<std::string> both = Names();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], "experts.picchioflat");
  EXPECT_THAT(both[1], testing::StartsWith("pending-"));
  ExpectTaken();  // Before the rename: the old store.

  WriteAll(store_, new_bytes_);
  ExpectTaken();  // Before the own entry: the new store.
  EXPECT_EQ(Names(), both);

  ASSERT_OK(Confirm(listing_));
  ExpectTaken();
  EXPECT_THAT(Names(), testing::ElementsAre("experts.picchioflat"));
  const Manifest after = LoadManifest(model_).value();
  EXPECT_EQ(after.stores[0].bytes, new_bytes_.size());
  EXPECT_EQ(after.stores[0].index_sha256, made_.index_sha256);
  WriteAll(store_, old_bytes_);
  EXPECT_FALSE(Accepted(model_, store_));
}

TEST_F(ListedStores, WhatAKilledPackLeftGoesWhenTheSameStoreIsPackedAgain) {
  ASSERT_OK(Announce(listing_));
  const std::string announced = ReadAll(model_ / kManifestName);
  ASSERT_OK(Announce(listing_));  // Again: listed already.
  EXPECT_EQ(ReadAll(model_ / kManifestName), announced);
  EXPECT_EQ(Names().size(), 2u);
  ASSERT_OK(Pack(model_, {.block_size = 16384}, 2, kGoOn));
  EXPECT_THAT(Names(), testing::ElementsAre("experts.picchioflat"));
  EXPECT_TRUE(ReadAll(store_) == new_bytes_);
  ExpectTaken();
}

// Another store of another kill: what it announced goes where no file has it, and comes to its own
// name where one does.
TEST_F(ListedStores, ConfirmingSettlesWhatOthersAnnounced) {
  ASSERT_OK(Announce(listing_));
  Sha256Digest gone = made_.index_sha256;
  gone.bytes[0] ^= 1;
  ASSERT_OK(listing_.Announce(4096, gone));
  EXPECT_EQ(Names().size(), 3u);
  WriteAll(store_, new_bytes_);  // Killed before it was confirmed.
  ASSERT_OK(Pack(model_, {.output = model_ / "third.picchioflat", .block_size = 32768}, 2, kGoOn));
  EXPECT_THAT(Names(), testing::ElementsAre("experts.picchioflat", "third.picchioflat"));
  ExpectTaken();
  EXPECT_TRUE(Accepted(model_, model_ / "third.picchioflat"));
}

TEST_F(ListedStores, WithdrawnItIsAsBefore) {
  for (const StoreListing& listing : {listing_, StoreListing(model_, "")}) {
    ASSERT_OK_AND_ASSIGN(const bool is_new,
                         listing.Announce(made_.store_bytes, made_.index_sha256));
    EXPECT_TRUE(is_new);
    ASSERT_OK_AND_ASSIGN(const bool again, listing.Announce(made_.store_bytes, made_.index_sha256));
    EXPECT_FALSE(again);
    ASSERT_OK(listing.Withdraw(made_.index_sha256));
    EXPECT_EQ(ReadAll(model_ / kManifestName), manifest_);
    ASSERT_OK(listing.Withdraw(made_.index_sha256));  // Nothing to do.
  }
}

TEST_F(ListedStores, ConfirmingWhatIsListedChangesNothing) {
  ASSERT_OK(Announce(listing_));
  ASSERT_OK(Confirm(listing_));
  const std::string confirmed = ReadAll(model_ / kManifestName);
  ASSERT_OK(Confirm(listing_));
  EXPECT_EQ(ReadAll(model_ / kManifestName), confirmed);
}

TEST_F(ListedStores, AStoreElsewhereIsListedByItsHash) {
  const StoreListing elsewhere(model_, "");
  ASSERT_OK(Announce(elsewhere));
  ASSERT_OK(Confirm(elsewhere));
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0],
            fmt::format("elsewhere-{}.picchioflat", made_.index_sha256.Hex().substr(0, 32)));
  EXPECT_TRUE(Accepted(model_, folder_ / "new"));
  ExpectTaken();
  const Manifest manifest = LoadManifest(model_).value();
  for (const ManifestStore& store : manifest.stores) {
    EXPECT_EQ(IsListedInFolder(store), store.name == "experts.picchioflat");
  }
}

TEST_F(ListedStores, FindsAStoreByItsHashUnderWhateverName) {
  ASSERT_OK(Announce(listing_));
  const Manifest manifest = LoadManifest(model_).value();
  const ManifestStore* found = FindListedStore(manifest, made_.index_sha256);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->bytes, made_.store_bytes);
  EXPECT_FALSE(IsListedInFolder(*found));
  Sha256Digest other = made_.index_sha256;
  other.bytes[31] ^= 1;
  EXPECT_EQ(FindListedStore(manifest, other), nullptr);
}

TEST_F(ListedStores, NamesThatAreTakenAreRefused) {
  for (const char* name :
       {"config.json", "dense.safetensors", "manifest.json", "pending-x", "elsewhere-x"}) {
    EXPECT_THAT(StoreListing(model_, name).CheckWritable(),
                Fails(Code::kInvalidArgument, "cannot be the name of a store"))
        << name;
  }
  EXPECT_OK(StoreListing(model_, "another.picchioflat").CheckWritable());
  EXPECT_EQ(ReadAll(model_ / kManifestName), manifest_);
}

}  // namespace
}  // namespace picchio
