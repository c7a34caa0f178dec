#include "format/checkpoint_index.h"

#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(CheckpointIndex, ListsTensorsAndFiles) {
  ASSERT_OK_AND_ASSIGN(
      const CheckpointIndex index,
      ParseCheckpointIndex(
          R"({"metadata":{"total_size":3},"weight_map":{"b":"2.st","a":"1.st","c":"1.st"}})", "x"));
  EXPECT_THAT(index.tensors, ElementsAre(Pair("a", "1.st"), Pair("b", "2.st"), Pair("c", "1.st")));
  EXPECT_THAT(index.files, ElementsAre("1.st", "2.st"));
}

TEST(CheckpointIndex, RefusesMalformedOnes) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "not valid JSON"},
      {"[]", "no object \"weight_map\""},
      {"{}", "no object \"weight_map\""},
      {R"({"weight_map":[]})", "no object \"weight_map\""},
      {R"({"weight_map":{}})", "is empty"},
      {R"({"weight_map":{"a":1}})", "tensor \"a\" lies in a number"},
      {R"({"weight_map":{"a":"x","a":"y"}})", "twice"},
      {R"({"weight_map":{"a":"../x"}})", "lies in \"../x\""},
      {R"({"weight_map":{"a":"/etc/x"}})", "lies in \"/etc/x\""},
      {R"({"weight_map":{"a":".."}})", "lies in \"..\""},
      {R"({"weight_map":{"a":"b\u0000"}})", "lies in \"b\\x00\""},
  };
  for (const auto& [json, part] : kCases) {
    EXPECT_THAT(ParseCheckpointIndex(json, "index"), Fails(Code::kCorrupt, part)) << json;
  }
}

}  // namespace
}  // namespace picchio
