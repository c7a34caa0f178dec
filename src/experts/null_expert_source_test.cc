#include "experts/null_expert_source.h"

#include <algorithm>

#include "experts/records_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(NullExpertSourceTest, KeepsOrZeroesWhatTheSlotHeld) {
  for (const auto fill : {NullExpertSource::Fill::kNothing, NullExpertSource::Fill::kZeros}) {
    NullExpertSource source(TestLayout(), fill);
    std::vector<std::byte> memory(source.slot_bytes(), std::byte{0x11});
    const ReadRequest request{.slot = {.bytes = memory.size(), .data = memory.data()}, .tag = 42};
    ASSERT_EQ(source.Submit({&request, 1}), 1u);
    Completion completion;
    ASSERT_EQ(source.Reap({&completion, 1}, std::chrono::nanoseconds(0)), 1u) << "not at once";
    EXPECT_EQ(completion.tag, 42u);
    const std::byte expected{fill == NullExpertSource::Fill::kZeros ? uint8_t{0} : uint8_t{0x11}};
    EXPECT_EQ(std::count(memory.begin(), memory.end(), expected), std::ssize(memory));
  }
}

}  // namespace
}  // namespace picchio
