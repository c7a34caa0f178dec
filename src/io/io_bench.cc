// Compares variants of the ways of reading, those that lost among them, with the one that is used
// ("uring"): records of one size in random order from one file, in turn, medians over the rounds.
// What users choose from is compared by `picchio bench io`.
//   io_bench FILE [--bytes N] [--ms N] [--rounds N] [--depths 1,4,16] [--only NAME,...]
#include <algorithm>
#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/huge_pages.h"
#include "base/page_memory.h"
#include "base/units.h"
#include "io/direct_device.h"
#include "io/read_rate.h"
#include "io/uring_device.h"

namespace picchio {
namespace {

struct Way {
  std::string name;
  bool huge_pages = true;
  std::function<Result<std::unique_ptr<BlockDevice>>(std::span<const Path>, size_t depth)> open;
};

template <typename Device>
Result<std::unique_ptr<BlockDevice>> Open(std::span<const Path> paths,
                                          const typename Device::Options& options) {
  PICCHIO_ASSIGN_OR_RETURN(auto device, Device::Open(paths, options));
  return std::unique_ptr<BlockDevice>(std::move(device));
}

Way UringWay(const std::string& name, bool huge_pages, UringQueueOptions queue) {
  return {name, huge_pages, [queue](std::span<const Path> paths, size_t depth) mutable {
            queue.depth = depth;
            return Open<UringDevice>(paths, {.queue = queue});
          }};
}

std::vector<Way> Ways() {
  return {
      {"direct-4k", false,
       [](auto paths, size_t depth) {
         return Open<DirectDevice>(paths, {.num_threads = static_cast<int>(depth)});
       }},
      UringWay("uring", true, {}),
      UringWay("uring-4k", false, {}),
      UringWay("uring-unreg-4k", false, {.register_memory = false}),
      UringWay("uring-1m", true, {.max_request_bytes = 1_MiB}),
      UringWay("uring-plain", true, {.ring = {.first_mode = 2}}),
      UringWay("uring-sqpoll", true, {.ring = {.sqpoll = true}}),
      UringWay("uring-iopoll", true, {.ring = {.iopoll = true}}),
  };
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Sample {
  std::vector<double> rates;      // GB/s, one per round.
  std::vector<double> cpu;        // Seconds per GB.
  std::vector<double> latencies;  // Of all rounds.
};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string part; std::getline(words, part, ',');) parts.push_back(part);
  return parts;
}

int Run(int argc, char** argv) {
  ReadLoad load{.read_bytes = 2654208};
  int rounds = 3;
  int milliseconds = 1000;
  std::vector<std::string> depths = {"1", "4", "16", "64"};
  std::vector<std::string> only;
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr,
                 "usage: io_bench FILE [--bytes N] [--ms N] [--rounds N] [--depths 1,4,16] "
                 "[--only NAME,...]\n");
    return 2;
  }
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--bytes") load.read_bytes = std::stoull(argv[i + 1]);
    if (flag == "--ms") milliseconds = std::stoi(argv[i + 1]);
    if (flag == "--rounds") rounds = std::stoi(argv[i + 1]);
    if (flag == "--depths") depths = Split(argv[i + 1]);
    if (flag == "--only") only = Split(argv[i + 1]);
  }
  load.max_time = std::chrono::milliseconds(milliseconds);
  const std::vector<Path> paths = {argv[1]};
  for (const std::string& word : depths) {
    load.depth = std::stoul(word);
    PageMemory huge = PageMemory::Allocate(std::max(ReadLoadMemory(load), 32_MiB)).value();
    AlignedBuffer small = AlignedBuffer::Allocate(ReadLoadMemory(load), 4_KiB).value();
    for (size_t at = 0; at < small.size(); at += 4_KiB) small.data()[at] = std::byte{1};
    std::printf(
        "depth %zu, %llu bytes a read, %.0f %% of the memory huge (%.0f %% for -4k)\n", load.depth,
        static_cast<unsigned long long>(load.read_bytes),
        100.0 * static_cast<double>(HugeBytes(huge.bytes())) / static_cast<double>(huge.size()),
        100.0 * static_cast<double>(HugeBytes(small.bytes())) / static_cast<double>(small.size()));
    const std::vector<Way> ways = Ways();
    std::vector<Sample> samples(ways.size());
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < ways.size(); ++i) {
        const Way& way = ways[i];
        if (!only.empty() && std::find(only.begin(), only.end(), way.name) == only.end()) continue;
        auto device = way.open(paths, load.depth);
        if (!device.has_value()) {
          std::fprintf(stderr, "%s\n", device.error().message().c_str());
          return 1;
        }
        ++load.seed;
        const auto rate =
            MeasureReadRate(**device, load, way.huge_pages ? huge.bytes() : small.bytes());
        if (!rate.has_value()) {
          std::fprintf(stderr, "%s: %s\n", way.name.c_str(), rate.error().message().c_str());
          continue;
        }
        samples[i].rates.push_back(1e-9 * rate->BytesPerSecond());
        samples[i].cpu.push_back(rate->cpu_seconds * 1e9 / static_cast<double>(rate->bytes));
        samples[i].latencies.insert(samples[i].latencies.end(), rate->latencies.begin(),
                                    rate->latencies.end());
        if (round == 0) {
          for (const std::string& note : (*device)->Report().notes) {
            std::printf("  %s: %s\n", way.name.c_str(), note.c_str());
          }
        }
      }
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      if (samples[i].rates.empty()) continue;
      std::printf("  %-15s %6.3f GB/s (%.3f to %.3f)  p50 %7.2f ms  p99 %7.2f ms  %5.3f CPU s/GB\n",
                  ways[i].name.c_str(), Quantile(samples[i].rates, 0.5),
                  Quantile(samples[i].rates, 0), Quantile(samples[i].rates, 1),
                  1e3 * Quantile(samples[i].latencies, 0.5),
                  1e3 * Quantile(samples[i].latencies, 0.99), Quantile(samples[i].cpu, 0.5));
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace picchio

int main(int argc, char** argv) { return picchio::Run(argc, argv); }
