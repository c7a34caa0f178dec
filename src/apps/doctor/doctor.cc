#include "apps/doctor/doctor.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "apps/doctor/disk_facts.h"
#include "apps/doctor/machine_facts.h"
#include "apps/doctor/storage_checks.h"
#include "apps/doctor/system_checks.h"
#include "apps/inspect/inspect_store.h"
#include "io/direct_device.h"
#include "io/uring_ring.h"

namespace picchio {
namespace {

// 0 where the file is no store.
uint64_t StoreBlockSize(const Path& file) {
  const auto index = InspectStore(file);
  return index.has_value() ? index->superblock().block_size : 0;
}

// Unbuffered access to a file that is there.
Finding CheckUnbufferedFile(const Path& file) {
  const auto device = DirectDevice::Open({&file, 1}, {.num_threads = 1, .max_alignment = 1_MiB});
  if (!device.has_value()) {
    return {
        .subject = "O_DIRECT", .health = Health::kWillNotWork, .found = device.error().message()};
  }
  const bool direct = (*device)->alignment() > 1;
  const std::vector<std::string> notes = (*device)->Report().notes;
  return CheckUnbuffered(direct ? (*device)->alignment() : 0, notes.empty() ? "" : notes.front(),
                         StoreBlockSize(file));
}

std::string DescribeRate(const MeasuredReadRate& rate) {
  std::string text = fmt::format("{}, {} bytes each, from {} into memory of which {:.0f} % is huge",
                                 rate.way, rate.read_bytes, rate.source, 100 * rate.huge_share);
  if (rate.temporary)
    text += " (just written: a cache of the drive or the hypervisor may serve it)";
  if (!rate.storage_share) {
    text += "; whether they came from the drive cannot be seen here";
  } else if (*rate.storage_share < 0.99) {
    text += fmt::format("; only {:.0f} % came from the drive, the rest from memory",
                        100 * *rate.storage_share);
  }
  return text;
}

}  // namespace

Result<DoctorReport> Examine(const Path& path, const ReadRateOptions& options, const Path& root) {
  if (!SomethingExists(path)) {
    return Error(Code::kNotFound, "there is no {}: name a model's folder, a store, or any folder",
                 PathText(path));
  }
  PICCHIO_ASSIGN_OR_RETURN(const FilePlace place, PlaceOf(path));
  const auto disk = ReadDiskFacts(place.major, place.minor, root);
  DoctorReport report{.path = PathText(path)};
  std::vector<Finding>& findings = report.findings;
  findings.push_back(CheckKernel(root));
  findings.push_back(CheckCpu(root));
  findings.push_back(CheckMemory(root));
  findings.push_back(CheckHugePages(root));
  findings.push_back(CheckLockedMemory(root));
  findings.push_back(CheckIoUring(root, UringRing::Open({}).status()));
  findings.push_back(CheckFileSystem(place.file_system));
  const auto large = LargeFileAt(path);
  if (large || FileExists(path)) findings.push_back(CheckUnbufferedFile(large.value_or(path)));
  findings.push_back(CheckDisk(disk));
  if (disk) findings.push_back(CheckQueue(*disk));
  auto rate = MeasureStorageReadRate(path, options);
  if (rate.has_value()) {
    findings.push_back(CheckRate(rate->bytes_per_second, DescribeRate(*rate), disk));
    report.rate = std::move(*rate);
  } else {
    findings.push_back({.subject = "bandwidth",
                        .health = Health::kCouldBeBetter,
                        .found = "not measured: " + rate.error().message()});
  }
  return report;
}

std::string DoctorText(const DoctorReport& report) {
  size_t width = 0;
  for (const Finding& finding : report.findings) width = std::max(width, finding.subject.size());
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{:<15}  {:<{}}  {}\n", HealthName(finding.health), finding.subject, width,
                        finding.found);
    if (!finding.remedy.empty()) {
      text += fmt::format("{:<15}  {:<{}}  -> {}\n", "", "", width, finding.remedy);
    }
  }
  return text;
}

Json DoctorJson(const DoctorReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"subject", finding.subject},
                        {"health", HealthName(finding.health)},
                        {"found", finding.found},
                        {"remedy", finding.remedy.empty() ? Json(nullptr) : Json(finding.remedy)}});
  }
  Json rate = nullptr;
  if (report.rate) {
    rate = {{"bytes_per_second", report.rate->bytes_per_second},
            {"source", report.rate->source},
            {"temporary", report.rate->temporary},
            {"way", report.rate->way},
            {"read_bytes", report.rate->read_bytes},
            {"huge_share", report.rate->huge_share},
            {"storage_share",
             report.rate->storage_share ? Json(*report.rate->storage_share) : Json(nullptr)}};
  }
  return {{"path", report.path}, {"findings", std::move(findings)}, {"read_rate", std::move(rate)}};
}

}  // namespace picchio
