#include "apps/doctor/disk_facts.h"

#include "apps/doctor/disk_counters.h"
#include "apps/doctor/recorded_machine_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

TEST(DiskFactsTest, APartitionOfAnNvmeDrive) {
  const RecordedMachine machine("nvme_laptop");
  const auto disk = ReadDiskFacts(259, 2, machine.root());
  ASSERT_TRUE(disk.has_value());
  EXPECT_EQ(disk->name, "nvme0n1");
  EXPECT_EQ(disk->model, "Samsung SSD 990 PRO 2TB");
  EXPECT_EQ(disk->bus, DiskBus::kNvme);
  EXPECT_EQ(disk->rotational, false);
  EXPECT_EQ(disk->link, "PCIe 16.0 GT/s x4");
  // 16e9 transfers of a bit, 128 of 130 of them data, over four lanes.
  EXPECT_NEAR(disk->bus_bytes_per_second.value(), 7.877e9, 1e6);
  EXPECT_FALSE(disk->link_below_its_best);
  EXPECT_EQ(disk->queue.max_sectors_kb, 128U);
  EXPECT_EQ(disk->queue.max_hw_sectors_kb, 2048U);
  EXPECT_EQ(disk->queue.nr_requests, 1023U);
  EXPECT_EQ(disk->queue.scheduler, "none");
  EXPECT_EQ(DescribeDisk(*disk), "Samsung SSD 990 PRO 2TB (nvme0n1, NVMe, PCIe 16.0 GT/s x4)");
}

TEST(DiskFactsTest, ADriveInASlowSlot) {
  RecordedMachine machine("nvme_laptop");
  const std::string slot = "/sys/devices/pci0000:00/0000:00:06.0/0000:02:00.0/";
  machine.Set(slot + "current_link_speed", "5.0 GT/s PCIe");
  machine.Set(slot + "current_link_width", "2");
  const auto disk = ReadDiskFacts(259, 2, machine.root());
  ASSERT_TRUE(disk.has_value());
  EXPECT_TRUE(disk->link_below_its_best);
  EXPECT_NEAR(disk->bus_bytes_per_second.value(), 1e9, 1);  // 8 bits in 10.
}

TEST(DiskFactsTest, WhatLiesBelowAnEncryptedVolumeIsNamed) {
  const RecordedMachine machine("nvme_laptop");
  const auto disk = ReadDiskFacts(252, 0, machine.root());
  ASSERT_TRUE(disk.has_value());
  EXPECT_EQ(disk->name, "dm-0");
  EXPECT_EQ(disk->bus, DiskBus::kNvme);
  EXPECT_THAT(disk->parts, testing::ElementsAre("nvme0n1p2"));
  EXPECT_EQ(DescribeDisk(*disk),
            "Samsung SSD 990 PRO 2TB (dm-0 on nvme0n1p2, NVMe, PCIe 16.0 GT/s x4)");
}

TEST(DiskFactsTest, SataDrives) {
  const RecordedMachine machine("sata");
  const auto solid = ReadDiskFacts(8, 1, machine.root());
  ASSERT_TRUE(solid.has_value());
  EXPECT_EQ(DescribeDisk(*solid), "Samsung SSD 870 (sda, SATA 6.0 Gb/s)");
  EXPECT_EQ(solid->bus, DiskBus::kSata);
  EXPECT_NEAR(solid->bus_bytes_per_second.value(), 600e6, 1);
  EXPECT_EQ(solid->queue.scheduler, "mq-deadline");
  const auto spinning = ReadDiskFacts(8, 16, machine.root());
  ASSERT_TRUE(spinning.has_value());
  EXPECT_EQ(spinning->rotational, true);
  EXPECT_TRUE(spinning->link_below_its_best);
  EXPECT_FALSE(spinning->queue.max_sectors_kb.has_value());
}

TEST(DiskFactsTest, ADriveBehindAUsbBridgeHasTheBridgesSpeed) {
  const RecordedMachine machine("usb_bridge");
  const auto disk = ReadDiskFacts(8, 16, machine.root());
  ASSERT_TRUE(disk.has_value());
  EXPECT_EQ(disk->bus, DiskBus::kUsb);
  EXPECT_EQ(disk->link, "USB 5000 Mb/s");
  EXPECT_NEAR(disk->bus_bytes_per_second.value(), 500e6, 1);
}

TEST(DiskFactsTest, AVirtualDrive) {
  const RecordedMachine machine("virtio");
  const auto disk = ReadDiskFacts(254, 0, machine.root());
  ASSERT_TRUE(disk.has_value());
  EXPECT_EQ(DescribeDisk(*disk), "vda, virtio");
  EXPECT_FALSE(disk->bus_bytes_per_second.has_value());
}

TEST(DiskFactsTest, WithoutSysfsThereAreNone) {
  const RecordedMachine machine("container");
  EXPECT_FALSE(ReadDiskFacts(259, 0, machine.root()).has_value());
}

TEST(DiskCountersTest, ReadsBothCounts) {
  RecordedMachine machine("virtio");
  const DiskCounters counters(254, 0, machine.root());
  const DiskCounters::Reading before = counters.Read();
  EXPECT_EQ(before.process_bytes, 1064960U);
  EXPECT_EQ(before.disk_bytes, 1043642U * 512);
  machine.Set("/proc/self/io", "rchar: 1\nread_bytes: 1065960");
  const DiskCounters::Reading after = counters.Read();
  EXPECT_EQ(DiskCounters::BytesBetween(before, after), 1000U);
  EXPECT_EQ(DiskCounters::BytesBetween({}, after), std::nullopt);
  // Others' reads count only where ours are not told.
  machine.Set("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda/stat", "  5732  69  1043650");
  const DiskCounters::Reading busy = counters.Read();
  EXPECT_EQ(DiskCounters::BytesBetween(before, busy), 1000U);
  EXPECT_EQ(DiskCounters::BytesBetween({.disk_bytes = before.disk_bytes}, busy), 8U * 512);
}

TEST(DiskCountersTest, WhatIsNotThereIsNotCounted) {
  const RecordedMachine machine("container");
  const DiskCounters::Reading none = DiskCounters(0, 45, machine.root()).Read();
  EXPECT_FALSE(none.process_bytes.has_value());
  EXPECT_FALSE(none.disk_bytes.has_value());
}

}  // namespace
}  // namespace picchio
