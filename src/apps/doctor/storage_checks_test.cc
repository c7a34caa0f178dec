#include "apps/doctor/storage_checks.h"

#include "apps/doctor/recorded_machine_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

DiskFacts Disk(std::string_view machine, unsigned major, unsigned minor) {
  return ReadDiskFacts(major, minor, RecordedMachine(machine).root()).value();
}

TEST(StorageChecksTest, WallsAreNamed) {
  const Finding sata = CheckDisk(Disk("sata", 8, 1));
  EXPECT_EQ(sata.health, Health::kCouldBeBetter);
  EXPECT_THAT(sata.found, HasSubstr("SATA moves at most 600 MB/s: a wall that no software moves"));
  EXPECT_THAT(sata.remedy, HasSubstr("NVMe"));
  const Finding usb = CheckDisk(Disk("usb_bridge", 8, 16));
  EXPECT_EQ(usb.health, Health::kCouldBeBetter);
  EXPECT_THAT(usb.found, HasSubstr("the USB bridge moves at most 500 MB/s"));
  const Finding spinning = CheckDisk(Disk("sata", 8, 16));
  EXPECT_THAT(spinning.found, HasSubstr("it spins"));
  EXPECT_EQ(CheckDisk(Disk("nvme_laptop", 259, 2)).health, Health::kOk);
  // What a hypervisor calls spinning.
  EXPECT_EQ(CheckDisk(Disk("virtio", 254, 0)).health, Health::kOk);
  EXPECT_EQ(CheckDisk(std::nullopt).health, Health::kOk);
  EXPECT_THAT(CheckDisk(std::nullopt).found, HasSubstr("cannot be seen"));
}

TEST(StorageChecksTest, QueuesThatCouldTakeMore) {
  const Finding laptop = CheckQueue(Disk("nvme_laptop", 259, 2));
  EXPECT_EQ(laptop.health, Health::kCouldBeBetter);
  EXPECT_EQ(laptop.remedy, "echo 1024 | sudo tee /sys/block/nvme0n1/queue/max_sectors_kb");
  EXPECT_EQ(CheckQueue(Disk("virtio", 254, 0)).health, Health::kOk);
  DiskFacts scheduled = Disk("nvme_laptop", 259, 2);
  scheduled.queue.max_sectors_kb = 2048;
  EXPECT_EQ(CheckQueue(scheduled).health, Health::kOk);
  scheduled.queue.scheduler = "bfq";
  EXPECT_THAT(CheckQueue(scheduled).remedy, HasSubstr("echo none"));
}

TEST(StorageChecksTest, FileSystems) {
  EXPECT_EQ(CheckFileSystem("ext4").health, Health::kOk);
  EXPECT_EQ(CheckFileSystem("btrfs").health, Health::kOk);
  for (const char* slow : {"tmpfs", "NFS", "FUSE", "9p"}) {
    EXPECT_EQ(CheckFileSystem(slow).health, Health::kCouldBeBetter) << slow;
    EXPECT_NE(CheckFileSystem(slow).remedy, "") << slow;
  }
}

TEST(StorageChecksTest, Unbuffered) {
  EXPECT_EQ(CheckUnbuffered(4096, "", 4096).health, Health::kOk);
  EXPECT_EQ(CheckUnbuffered(4096, "", 0).health, Health::kOk);
  const Finding coarse = CheckUnbuffered(65536, "", 4096);
  EXPECT_EQ(coarse.health, Health::kCouldBeBetter);
  EXPECT_EQ(coarse.remedy, "picchio pack MODEL --block-size 65536");
  EXPECT_EQ(CheckUnbuffered(0, "it lies on tmpfs", 4096).health, Health::kCouldBeBetter);
}

TEST(StorageChecksTest, RatesAreHeldAgainstTheLink) {
  const DiskFacts laptop = Disk("nvme_laptop", 259, 2);
  EXPECT_EQ(CheckRate(6.5e9, "x", laptop).health, Health::kOk);
  EXPECT_THAT(CheckRate(6.5e9, "x", laptop).found, HasSubstr("83 % of what the link carries"));
  EXPECT_EQ(CheckRate(2e9, "x", laptop).health, Health::kCouldBeBetter);
  EXPECT_EQ(CheckRate(2e9, "x", std::nullopt).health, Health::kOk);
  EXPECT_EQ(CheckRate(3e8, "x", std::nullopt).health, Health::kCouldBeBetter);
}

}  // namespace
}  // namespace picchio
