// The disk that a file lies on, as sysfs describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace picchio {

// What the bytes come through: where it is a wall, no software moves it.
enum class DiskBus : uint8_t {
  kUnknown,
  kNvme,
  kSata,
  kUsb,
  kVirtio,
  kScsi,  // SAS, iSCSI, hypervisors' disks.
  kMmc,   // SD cards and eMMC.
  kLoop,
  kNetwork,
  kMemory,  // zram, brd.
};
std::string_view DiskBusName(DiskBus bus);  // "NVMe", "SATA", "USB", ...

struct QueueLimits {
  std::optional<uint64_t> max_sectors_kb{};  // Of a request, as set; at most
  std::optional<uint64_t> max_hw_sectors_kb{};
  std::optional<uint64_t> max_segments{};
  std::optional<uint64_t> nr_requests{};
  std::optional<uint64_t> logical_block_size{};
  std::optional<uint64_t> read_ahead_kb{};
  std::string scheduler{};  // The chosen one: "none", "mq-deadline".
};

struct DiskFacts {
  std::string name{};   // "nvme0n1", "vda".
  std::string model{};  // Empty where there is none.
  DiskBus bus = DiskBus::kUnknown;
  std::optional<bool> rotational{};
  // What the bus itself can move, in bytes per second: USB's and SATA's speed as negotiated, PCIe's
  // lanes, less their coding. None where sysfs does not say.
  std::optional<double> bus_bytes_per_second{};
  std::string link{};  // "PCIe 16.0 GT/s x4", "USB 5000 Mb/s", "SATA 6.0 Gb/s"; may be empty.
  // The link could be faster than it is: in a slower slot, or on an older port.
  bool link_below_its_best = false;
  QueueLimits queue{};
  std::vector<std::string> parts{};  // What a RAID or a mapped device is made of.
};

// The device of this number, a partition's being its disk; a mapped one's (LUKS, LVM, RAID) bus and
// link are those of its first part. None where sysfs does not know it, as in some containers and
// for network file systems. `root` is where "/" is, for tests.
std::optional<DiskFacts> ReadDiskFacts(unsigned major, unsigned minor, const Path& root = "/");

// "Samsung SSD 990 PRO (nvme0n1, NVMe, PCIe 16.0 GT/s x4)".
std::string DescribeDisk(const DiskFacts& disk);

}  // namespace picchio
