#include "apps/doctor/storage_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/human.h"

namespace picchio {
namespace {

// Below this an expert of a few megabytes is a matter of many milliseconds, whatever we do.
constexpr double kFast = 1e9;
// A drive that gives less than this of what its link carries is held back by something else.
constexpr double kShareOfLink = 0.5;

// Requests of a megabyte reach any drive's bandwidth.
constexpr uint64_t kGoodRequestKb = 1024;
constexpr uint64_t kGoodRequests = 64;

std::string Wall(const DiskFacts& disk) {
  return disk.bus_bytes_per_second
             ? fmt::format(" moves at most {}/s: a wall that no software moves",
                           FormatBytes(*disk.bus_bytes_per_second))
             : std::string(" is a wall that no software moves");
}

}  // namespace

Finding CheckFileSystem(const std::string& name) {
  Finding finding{.subject = "file system", .found = name};
  if (name == "tmpfs" || name == "ramfs" || name == "hugetlbfs") {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": a model there takes up the memory that its cache needs";
    finding.remedy = "put the model on a local drive";
  } else if (name == "NFS" || name == "CIFS" || name == "SMB" || name == "9p") {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": every expert comes through the network or the hypervisor's file sharing";
    finding.remedy = "copy the model to a local drive";
  } else if (name == "FUSE" || name == "overlayfs") {
    finding.health = Health::kCouldBeBetter;
    finding.found += ": a layer between us and the drive";
    finding.remedy = "put the model on the file system below, or in a mounted volume";
  } else if (name == "btrfs" || name == "ZFS" || name == "bcachefs") {
    finding.found += ": compressed or checksummed files may be read through the page cache";
  }
  return finding;
}

Finding CheckUnbuffered(uint64_t alignment, const std::string& why_not, uint64_t store_block_size) {
  Finding finding{.subject = "O_DIRECT"};
  if (alignment == 0) {
    finding.health = Health::kCouldBeBetter;
    finding.found =
        fmt::format("{}: reads go through the page cache, which competes with our cache", why_not);
    return finding;
  }
  finding.found = fmt::format("unbuffered reads work, at multiples of {} bytes", alignment);
  if (store_block_size > 0 && alignment > store_block_size) {
    finding.health = Health::kCouldBeBetter;
    finding.found +=
        fmt::format(", and the store is laid out for {}: it is read buffered", store_block_size);
    finding.remedy = fmt::format("picchio pack MODEL --block-size {}", alignment);
  }
  return finding;
}

Finding CheckDisk(const std::optional<DiskFacts>& disk) {
  Finding finding{.subject = "drive"};
  if (!disk) {
    finding.found = "cannot be seen here (a container without /sys, or no local drive)";
    return finding;
  }
  finding.found = DescribeDisk(*disk);
  const auto worse = [&](const std::string& why, const std::string& remedy) {
    finding.health = Health::kCouldBeBetter;
    finding.found += why;
    finding.remedy = remedy;
  };
  constexpr const char* kMove = "put the model on an NVMe drive in the machine";
  if (disk->bus == DiskBus::kUsb) {
    worse("; the USB bridge" + Wall(*disk),
          disk->link_below_its_best ? "plug it into a faster port (USB 3.2 or Thunderbolt), or put "
                                      "the model on an NVMe drive in the machine"
                                    : kMove);
  } else if (disk->bus == DiskBus::kSata) {
    worse("; SATA" + Wall(*disk), kMove);
  } else if (disk->bus == DiskBus::kMmc) {
    worse("; a memory card" + Wall(*disk), kMove);
  } else if (disk->bus == DiskBus::kNetwork) {
    worse("; the network is a wall that no software moves", kMove);
  } else if (disk->bus == DiskBus::kMemory) {
    worse("; it takes up the memory that the cache needs", "put the model on a local drive");
  }
  // Hypervisors often call their disks spinning: nothing to be concluded from there.
  const bool physical =
      disk->bus == DiskBus::kSata || disk->bus == DiskBus::kUsb || disk->bus == DiskBus::kScsi;
  if (physical && disk->rotational.value_or(false)) {
    worse("; it spins: every expert waits for the arm", "put the model on a solid-state drive");
  } else if (disk->bus == DiskBus::kNvme && disk->link_below_its_best) {
    worse("; its link is slower than the drive and the slot could be",
          "put it into a slot with more or faster lanes (lspci -vv shows LnkCap and LnkSta)");
  }
  return finding;
}

Finding CheckQueue(const DiskFacts& disk) {
  Finding finding{.subject = "drive's queue"};
  const QueueLimits& queue = disk.queue;
  const auto text = [](const std::optional<uint64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string("?");
  };
  finding.found = fmt::format(
      "requests of at most {} KiB (hardware {}), {} segments, {} at once, scheduler {}",
      text(queue.max_sectors_kb), text(queue.max_hw_sectors_kb), text(queue.max_segments),
      text(queue.nr_requests), queue.scheduler.empty() ? "?" : queue.scheduler);
  const std::string folder = fmt::format("/sys/block/{}/queue/", disk.name);
  const uint64_t most = std::min(queue.max_hw_sectors_kb.value_or(0), kGoodRequestKb);
  const bool fast = disk.bus == DiskBus::kNvme;
  if (queue.max_sectors_kb && *queue.max_sectors_kb < most) {
    finding.health = Health::kCouldBeBetter;
    finding.found += "; larger requests are possible";
    finding.remedy = fmt::format("echo {} | sudo tee {}max_sectors_kb", most, folder);
  } else if (fast && !queue.scheduler.empty() && queue.scheduler != "none") {
    finding.health = Health::kCouldBeBetter;
    finding.found += "; an NVMe drive needs no scheduler";
    finding.remedy = fmt::format("echo none | sudo tee {}scheduler", folder);
  } else if (fast && queue.nr_requests && *queue.nr_requests < kGoodRequests) {
    finding.health = Health::kCouldBeBetter;
    finding.found += "; deeper queues keep a drive busier";
    finding.remedy = fmt::format("echo {} | sudo tee {}nr_requests", kGoodRequests, folder);
  }
  return finding;
}

Finding CheckRate(double bytes_per_second, const std::string& how,
                  const std::optional<DiskFacts>& disk) {
  Finding finding{.subject = "bandwidth",
                  .found = fmt::format("{}/s: {}", FormatBytes(bytes_per_second), how)};
  const bool knows_link = disk && disk->bus_bytes_per_second;
  if (knows_link) {
    const double share = bytes_per_second / *disk->bus_bytes_per_second;
    finding.found += fmt::format("; {:.0f} % of what the link carries", 100 * share);
    if (share < kShareOfLink && disk->bus == DiskBus::kNvme) {
      finding.health = Health::kCouldBeBetter;
      finding.remedy =
          "let other work rest and measure again; see whether the drive is hot or full";
    }
  }
  if (bytes_per_second < kFast) finding.health = Health::kCouldBeBetter;
  return finding;
}

}  // namespace picchio
