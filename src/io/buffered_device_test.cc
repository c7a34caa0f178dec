#include "io/buffered_device.h"

#include <vector>

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(BufferedDeviceTest, ReadsSeveralFiles) {
  TemporaryFolder folder;
  WriteAll(folder / "a", "first file");
  WriteAll(folder / "b", "the second");
  const std::vector<Path> paths = {folder / "a", folder / "b"};
  ASSERT_OK_AND_ASSIGN(const auto device, BufferedDevice::Open(paths, {.num_threads = 2}));
  EXPECT_EQ(device->num_files(), 2u);
  EXPECT_EQ(device->file_bytes(1), 10u);
  EXPECT_EQ(device->alignment(), 1u);
  EXPECT_THAT(device->name(), testing::HasSubstr("a and 1 more"));

  ASSERT_OK_AND_ASSIGN(const auto queue, device->OpenQueue());
  std::string out(9, '.');
  const auto bytes = std::as_writable_bytes(std::span(out));
  const std::vector<DeviceRead> reads = {
      {.file_idx = 0, .offset = 6, .out = bytes.first(4), .tag = 1},
      {.file_idx = 1, .offset = 5, .out = bytes.last(5), .tag = 2}};
  ASSERT_EQ(queue->Submit(reads), 2u);
  std::vector<DeviceCompletion> done(2);
  for (size_t count = 0; count < 2;) {
    count += queue->Reap(std::span(done).subspan(count), kForever);
  }
  EXPECT_OK(done[0].status);
  EXPECT_OK(done[1].status);
  EXPECT_EQ(out, "fileecond");
}

TEST(BufferedDeviceTest, RefusesWhatIsNotThere) {
  TemporaryFolder folder;
  const std::vector<Path> paths = {folder / "none"};
  EXPECT_THAT(BufferedDevice::Open(paths, {}), Fails(Code::kNotFound, "none does not exist"));
  EXPECT_THAT(BufferedDevice::Open({}, {}), Fails(Code::kInvalidArgument, "at least one file"));
  WriteAll(folder / "none", "now it is");
  EXPECT_THAT(BufferedDevice::Open(paths, {.num_threads = 0}),
              Fails(Code::kInvalidArgument, "0 threads"));
  EXPECT_THAT(BufferedDevice::Open(paths, {.max_in_flight = 0}),
              Fails(Code::kInvalidArgument, "0 reads in flight"));
}

}  // namespace
}  // namespace picchio
