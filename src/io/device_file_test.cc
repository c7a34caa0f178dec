#include "io/device_file.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/aligned_buffer.h"
#include "io/uring_device.h"
#include "support/test_support.h"

namespace picchio {
namespace {

// A block device over a file, with sectors of 4096 bytes; gone with the object. Empty where the
// system has none to give.
class LoopDevice {
 public:
  explicit LoopDevice(const Path& file) {
    const Descriptor control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const int number = control.number() < 0 ? -1 : ioctl(control.number(), LOOP_CTL_GET_FREE);
    if (number < 0) return;
    const Path path = "/dev/loop" + std::to_string(number);
    device_ = Descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
    const Descriptor backing(open(file.c_str(), O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<uint32_t>(backing.number());
    config.block_size = 4096;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY;
    if (device_.number() >= 0 && ioctl(device_.number(), LOOP_CONFIGURE, &config) == 0)
      path_ = path;
  }
  const Path& path() const { return path_; }

 private:
  Descriptor device_;
  Path path_;
};

TEST(DeviceFileTest, ABlockDeviceIsReadAsAFileIs) {
  const TemporaryFolder folder;
  std::string content(1_MiB, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 40503 >> 16);
  WriteAll(folder / "disk", content);
  const LoopDevice loop(folder / "disk");
  if (loop.path().empty()) GTEST_SKIP() << "loop devices are not available here";

  const std::vector<Path> paths = {loop.path()};
  ASSERT_OK_AND_ASSIGN(const auto device, UringDevice::Open(paths, {}));
  EXPECT_EQ(device->file_bytes(0), content.size());
  EXPECT_GE(device->alignment(), 4096u);
  AlignedBuffer memory = AlignedBuffer::Allocate(512_KiB, 64_KiB).value();
  ASSERT_OK_AND_ASSIGN(const auto queue, device->OpenQueue());
  for (const uint64_t offset : {uint64_t{0}, 512_KiB, 1_MiB - 4096}) {
    const size_t bytes = std::min(512_KiB, 1_MiB - offset);
    const DeviceRead read{.offset = offset, .out = memory.bytes().first(bytes)};
    ASSERT_EQ(queue->Submit({&read, 1}), 1u);
    DeviceCompletion completion;
    ASSERT_EQ(queue->Reap({&completion, 1}, kForever), 1u);
    EXPECT_OK(completion.status);
    EXPECT_EQ(std::memcmp(memory.data(), content.data() + offset, bytes), 0);
  }
  EXPECT_EQ(device->Report().num_direct_failures, 0u);
  const DeviceRead beyond{.offset = 1_MiB, .out = memory.bytes().first(4096)};
  ASSERT_EQ(queue->Submit({&beyond, 1}), 1u);
  DeviceCompletion completion;
  ASSERT_EQ(queue->Reap({&completion, 1}, kForever), 1u);
  EXPECT_THAT(completion.status, Fails(Code::kIoError, "ends at byte 1048576"));
}

TEST(DeviceFileTest, WhatIsNeitherIsRefusedWithoutHanging) {
  const TemporaryFolder folder;
  DeviceStatistics statistics;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const Path& path : {folder / "pipe", folder.path(), Path("/dev/null")}) {
    EXPECT_THAT(DeviceFile::Open(path, {.direct = true}, &statistics),
                Fails(Code::kInvalidArgument, "neither a regular file nor a block device"));
  }
}

}  // namespace
}  // namespace picchio
