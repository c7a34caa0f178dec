#include "engine/sampling_params.h"

#include <cmath>
#include <limits>

#include "support/test_support.h"

namespace picchio {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int32_t kVocabSize = 100;

Status ValidateWith(auto change) {
  SamplingParams params;
  change(params);
  return Validate(params, kVocabSize);
}

TEST(SamplingParams, NeutralAndExtremeValuesPass) {
  EXPECT_OK(Validate(SamplingParams{}, kVocabSize));
  EXPECT_OK(ValidateWith([](auto& p) {
    p.temperature = 0;
    p.top_k = std::numeric_limits<int64_t>::max();
    p.top_p = 0;
    p.min_p = 1;
    p.repeat_penalty = 100;
    p.frequency_penalty = -2;
    p.presence_penalty = 2;
    p.logit_bias = {{0, -static_cast<float>(kInfinite)}, {99, std::numeric_limits<float>::max()}};
  }));
  EXPECT_OK(ValidateWith([](auto& p) { p.temperature = 1e-300; }));
}

TEST(SamplingParams, NonsenseIsRefusedByName) {
  for (double bad : {-0.1, kNaN, kInfinite, -kInfinite}) {
    EXPECT_THAT(ValidateWith([&](auto& p) { p.temperature = bad; }),
                Fails(Code::kInvalidArgument, "temperature is"));
  }
  EXPECT_THAT(ValidateWith([](auto& p) { p.top_k = -1; }),
              Fails(Code::kInvalidArgument, "top_k is -1, expected 0 (off) or more"));
  for (double bad : {-0.1, 1.1, kNaN, kInfinite}) {
    EXPECT_THAT(ValidateWith([&](auto& p) { p.top_p = bad; }),
                Fails(Code::kInvalidArgument, "top_p is"));
    EXPECT_THAT(ValidateWith([&](auto& p) { p.min_p = bad; }),
                Fails(Code::kInvalidArgument, "min_p is"));
  }
  for (double bad : {-1.0, 0.0, 1000.0, kNaN, kInfinite}) {
    EXPECT_THAT(ValidateWith([&](auto& p) { p.repeat_penalty = bad; }),
                Fails(Code::kInvalidArgument, "repeat_penalty is"));
  }
  for (double bad : {-2.1, 2.1, kNaN, kInfinite}) {
    EXPECT_THAT(ValidateWith([&](auto& p) { p.frequency_penalty = bad; }),
                Fails(Code::kInvalidArgument, "frequency_penalty is"));
    EXPECT_THAT(ValidateWith([&](auto& p) { p.presence_penalty = bad; }),
                Fails(Code::kInvalidArgument, "presence_penalty is"));
  }
}

TEST(SamplingParams, BiasOfTokensThatAreNot) {
  for (int32_t id : {-1, kVocabSize, std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(ValidateWith([&](auto& p) {
                  p.logit_bias = {{id, 1.0f}};
                }),
                Fails(Code::kInvalidArgument, "the vocabulary's ids are 0 to 99"));
  }
  for (double bad : {kNaN, kInfinite}) {
    EXPECT_THAT(ValidateWith([&](auto& p) {
                  p.logit_bias = {{7, static_cast<float>(bad)}};
                }),
                Fails(Code::kInvalidArgument, "logit_bias of token 7"));
  }
}

}  // namespace
}  // namespace picchio
