// A model beside a store of either version that tests spoil.
#pragma once

#include <string>
#include <vector>

#include "apps/pack/pack.h"
#include "apps/pack/record_check.h"
#include "apps/pack/store_test_support.h"
#include "apps/verify/check_store.h"
#include "support/test_support.h"

namespace picchio {

// A model with both forms of its experts and, apart from it, a store.
class StoreTools : public testing::TestWithParam<RecordVersion> {
 protected:
  void SetUp() override {
    MakeModel("gpt_oss_long", PayloadKind::kInt4, model_);
    ASSERT_OK(Pack(model_, {.output = store_, .version = GetParam()}, 2, kGoOn));
    whole_ = ReadAll(store_);
    ASSERT_OK_AND_ASSIGN(const File file, File::OpenForRead(store_));
    const auto index = FlatIndex::Read(file);
    ASSERT_OK(index);
    records_ = RecordsOf(*index);
    for (const RecordPlace& place : records_) {
      entries_.push_back(*index->Find(place.layer, place.expert));
    }
    ASSERT_GT(records_.size(), 8u);
    // Padding there must be, or nothing would be known of it.
    ASSERT_GT(entries_[0].padded_bytes, entries_[0].bytes);
  }

  Status Verify(const Path& store) const {
    const auto checked = CheckStore(store, 2, kGoOn);
    return checked.has_value() ? FirstFault(*checked, PathText(store)) : checked.error();
  }

  std::string Flipped(size_t at) const {
    std::string spoilt = whole_;
    spoilt[at] ^= 0x10;
    return spoilt;
  }

  TemporaryFolder folder_;
  const Path model_ = folder_ / "model";
  const Path store_ = folder_ / "a store";
  std::string whole_;
  std::vector<RecordPlace> records_;
  std::vector<FlatEntry> entries_;
};

inline std::string VersionName(const testing::TestParamInfo<RecordVersion>& test) {
  return test.param == RecordVersion::kV2 ? "v2" : "v3";
}

}  // namespace picchio
