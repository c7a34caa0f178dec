#include "model/model_sizes.h"

#include "model/kv_cache.h"
#include "support/test_support.h"

namespace picchio {
namespace {

ModelConfig PublishedConfig(std::string_view name) {
  const std::string path = "configs/" + std::string(name);
  return ModelConfig::Parse(ReadAll(TestData(path)), name).value();
}

// The figures of the model cards and technical reports.
TEST(ModelSizes, AreThePublishedOnes) {
  const ModelSizes qwen = SizesOf(PublishedConfig("qwen3-30b-a3b.json"));
  EXPECT_EQ(qwen.total_parameters, 30'532'122'624u);
  EXPECT_NEAR(static_cast<double>(qwen.active_parameters), 3.3e9, 0.3e9);
  EXPECT_EQ(qwen.num_expert_records, 48u * 128);
  EXPECT_EQ(qwen.records_per_token, 384u);
  EXPECT_EQ(qwen.kv_bytes_per_position, 48u * 2 * 512 * 4);
  EXPECT_EQ(qwen.kv_window_bytes, 0u);

  const ModelSizes small = SizesOf(PublishedConfig("gpt-oss-20b.json"));
  EXPECT_NEAR(static_cast<double>(small.total_parameters), 20.91e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(small.active_parameters), 3.61e9, 0.01e9);
  EXPECT_EQ(small.kv_bytes_per_position, 12u * 2 * 512 * 4);
  // A cache has room for eight copies of the 127 rows before a position beside.
  EXPECT_EQ(
      KvCache::BytesFor(PublishedConfig("gpt-oss-20b.json"), 8192),
      small.kv_bytes_per_position * 8192 + small.kv_window_bytes + 12u * 2 * 512 * 4 * 127 * 8);
  EXPECT_EQ(small.kv_window_bytes, 12u * 2 * 512 * 4 * (128 + 127));

  const ModelSizes large = SizesOf(PublishedConfig("gpt-oss-120b.json"));
  EXPECT_NEAR(static_cast<double>(large.total_parameters), 116.83e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(large.active_parameters), 5.13e9, 0.01e9);

  const ModelSizes big = SizesOf(PublishedConfig("qwen3-235b-a22b.json"));
  EXPECT_NEAR(static_cast<double>(big.total_parameters), 235e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(big.active_parameters), 22e9, 0.5e9);
}

}  // namespace
}  // namespace picchio
