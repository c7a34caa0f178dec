#include "apps/doctor/disk_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "apps/doctor/machine_facts.h"
#include "base/cgroup.h"

namespace picchio {
namespace {

// The first line without blanks around it.
std::string Trimmed(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string ReadLine(const Path& path) {
  std::string line = Trimmed(ReadPseudoFile(path));
  // Names come from the devices themselves.
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line;
}

std::optional<uint64_t> ReadNumber(const Path& path) { return LeadingNumber(ReadPseudoFile(path)); }

bool Exists(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

DiskBus BusOf(const std::string& name, const std::string& place) {
  const auto begins = [&name](std::string_view with) { return name.starts_with(with); };
  if (begins("loop")) return DiskBus::kLoop;
  if (begins("zram") || begins("ram") || begins("pmem")) return DiskBus::kMemory;
  if (begins("nbd") || begins("rbd")) return DiskBus::kNetwork;
  if (begins("mmcblk")) return DiskBus::kMmc;
  // The way to the device, innermost last: a SATA disk behind USB is a USB disk.
  if (place.find("/usb") != std::string::npos) return DiskBus::kUsb;
  if (place.find("/nvme") != std::string::npos) return DiskBus::kNvme;
  if (place.find("/virtio") != std::string::npos) return DiskBus::kVirtio;
  if (place.find("/ata") != std::string::npos) return DiskBus::kSata;
  if (place.find("/host") != std::string::npos) return DiskBus::kScsi;
  return DiskBus::kUnknown;
}

// Gigatransfers per second at the start of "16.0 GT/s PCIe"; 0 where there are none.
double LeadingDecimal(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

void ReadPcieLink(const Path& function, DiskFacts& disk) {
  const std::string speed = ReadLine(function / "current_link_speed");
  const double transfers = LeadingDecimal(speed);
  const auto width = ReadNumber(function / "current_link_width");
  if (!(transfers > 0) || !width || *width == 0) return;
  disk.link = fmt::format("PCIe {} GT/s x{}", speed.substr(0, speed.find(' ')), *width);
  // 8 bits in 10 up to 5 GT/s, 128 in 130 from there on.
  const double coding = transfers > 5 ? 128.0 / 130 : 0.8;
  disk.bus_bytes_per_second = transfers * 1e9 * coding / 8 * static_cast<double>(*width);
  const double best = LeadingDecimal(ReadLine(function / "max_link_speed"));
  const auto best_width = ReadNumber(function / "max_link_width");
  disk.link_below_its_best = best > transfers || (best_width && *best_width > *width);
}

void ReadUsbLink(const Path& device, DiskFacts& disk) {
  const double megabits = LeadingDecimal(ReadLine(device / "speed"));
  if (!(megabits > 0)) return;
  disk.link = fmt::format("USB {:g} Mb/s", megabits);
  const double coding = megabits > 5000 ? 128.0 / 132 : 0.8;
  disk.bus_bytes_per_second = megabits * 1e6 * coding / 8;
  disk.link_below_its_best = megabits < 5000;
}

// "ata3" in the way to the device has its port as /sys/class/ata_link/link3.
void ReadSataLink(const std::string& place, const Path& root, DiskFacts& disk) {
  const size_t at = place.rfind("/ata");
  if (at == std::string::npos) return;
  const auto port = LeadingNumber(std::string_view(place).substr(at + 4));
  if (!port) return;
  const Path link = root / fmt::format("sys/class/ata_link/link{}", *port);
  const std::string speed = ReadLine(link / "sata_spd");
  const double gigabits = LeadingDecimal(speed);
  if (!(gigabits > 0)) return;
  disk.link = fmt::format("SATA {:.1f} Gb/s", gigabits);
  disk.bus_bytes_per_second = gigabits * 1e9 * 0.8 / 8;
  disk.link_below_its_best = gigabits < 6;
}

// The link is described at one of the folders on the way to the device.
void ReadLink(const Path& folder, const Path& root, DiskFacts& disk) {
  if (disk.bus == DiskBus::kSata) {
    ReadSataLink(folder.generic_string(), root, disk);
    return;
  }
  Path at = folder;
  for (int depth = 0; depth < 24 && at.has_relative_path() && at != root; ++depth) {
    if (disk.bus == DiskBus::kNvme && Exists(at / "current_link_width")) {
      ReadPcieLink(at, disk);
      return;
    }
    if (disk.bus == DiskBus::kUsb && Exists(at / "speed") && Exists(at / "idVendor")) {
      ReadUsbLink(at, disk);
      return;
    }
    at = at.parent_path();
  }
}

// A disk that knows only one says it without brackets.
std::string ChosenScheduler(const std::string& line) {
  const std::string chosen = ChosenWord(line);
  return chosen.empty() ? line : chosen;
}

std::optional<DiskFacts> ReadFolder(Path folder, const Path& root, int depth) {
  std::error_code error;
  folder = std::filesystem::canonical(folder, error);
  if (error) return std::nullopt;
  if (Exists(folder / "partition")) folder = folder.parent_path();
  DiskFacts disk;
  disk.name = folder.filename().string();
  disk.bus = BusOf(disk.name, folder.generic_string());
  disk.model = ReadLine(folder / "device" / "model");
  if (const auto rotational = ReadNumber(folder / "queue" / "rotational")) {
    disk.rotational = *rotational != 0;
  }
  const Path queue = folder / "queue";
  disk.queue = {.max_sectors_kb = ReadNumber(queue / "max_sectors_kb"),
                .max_hw_sectors_kb = ReadNumber(queue / "max_hw_sectors_kb"),
                .max_segments = ReadNumber(queue / "max_segments"),
                .nr_requests = ReadNumber(queue / "nr_requests"),
                .logical_block_size = ReadNumber(queue / "logical_block_size"),
                .read_ahead_kb = ReadNumber(queue / "read_ahead_kb"),
                .scheduler = ChosenScheduler(ReadLine(queue / "scheduler"))};
  const Path canonical_root = std::filesystem::canonical(root, error);
  ReadLink(folder, canonical_root, disk);

  std::vector<Path> parts;
  for (std::filesystem::directory_iterator entries(folder / "slaves", error), end;
       !error && entries != end; entries.increment(error)) {
    parts.push_back(entries->path());
  }
  std::sort(parts.begin(), parts.end());
  for (const Path& part : parts) disk.parts.push_back(part.filename().string());
  if (!parts.empty() && depth < 8) {
    // Mapped devices may lie on mapped devices.
    if (const auto first = ReadFolder(parts.front(), root, depth + 1)) {
      disk.bus = first->bus;
      disk.link = first->link;
      disk.link_below_its_best = first->link_below_its_best;
      disk.bus_bytes_per_second = first->bus_bytes_per_second;
      if (disk.model.empty()) disk.model = first->model;
    }
  }
  return disk;
}

}  // namespace

std::string_view DiskBusName(DiskBus bus) {
  switch (bus) {
    case DiskBus::kNvme:
      return "NVMe";
    case DiskBus::kSata:
      return "SATA";
    case DiskBus::kUsb:
      return "USB";
    case DiskBus::kVirtio:
      return "virtio";
    case DiskBus::kScsi:
      return "SCSI";
    case DiskBus::kMmc:
      return "MMC";
    case DiskBus::kLoop:
      return "loop device";
    case DiskBus::kNetwork:
      return "network";
    case DiskBus::kMemory:
      return "memory";
    case DiskBus::kUnknown:
      break;
  }
  return "unknown bus";
}

std::optional<DiskFacts> ReadDiskFacts(unsigned major, unsigned minor, const Path& root) {
  return ReadFolder(root / fmt::format("sys/dev/block/{}:{}", major, minor), root, 0);
}

std::string DescribeDisk(const DiskFacts& disk) {
  std::string in_brackets = disk.name;
  if (!disk.parts.empty()) {
    std::string parts;
    for (const std::string& part : disk.parts) parts += (parts.empty() ? " on " : ", ") + part;
    in_brackets += parts;
  }
  // "USB 5000 Mb/s" names the bus already.
  if (!disk.link.starts_with(DiskBusName(disk.bus))) {
    in_brackets += fmt::format(", {}", DiskBusName(disk.bus));
  }
  if (!disk.link.empty()) in_brackets += ", " + disk.link;
  return disk.model.empty() ? in_brackets : fmt::format("{} ({})", disk.model, in_brackets);
}

}  // namespace picchio
