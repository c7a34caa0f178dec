#include "apps/bench/kernel_bench_report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "apps/bench/spread_json.h"
#include "apps/bench/text_table.h"
#include "base/human.h"

namespace picchio {
namespace {

std::string Giga(double value) { return fmt::format("{:.1f}", 1e-9 * value); }

}  // namespace

std::string KernelBenchText(const KernelBenchReport& report) {
  std::string text =
      fmt::format("CPU     {}, {} usable\nbuild   {}\nmemory  {}, read in turn\n\n", report.cpu,
                  report.num_cpus, report.build, FormatMemory(report.buffer_bytes));
  std::vector<std::vector<std::string>> rows;
  for (const ReadLimit& limit : report.read_limits) {
    rows.push_back({"read memory", "", fmt::format("{}", limit.threads),
                    Giga(limit.bytes_per_second.median), Giga(limit.bytes_per_second.greatest),
                    "GB/s"});
  }
  for (const ComputeLimit& limit : report.compute_limits) {
    for (const auto& [what, spread] : {std::pair{"multiply bytes", limit.integer_ops_per_second},
                                       std::pair{"multiply floats", limit.float_ops_per_second}}) {
      if (spread.median == 0) continue;  // None of these products was measured.
      rows.push_back({what, std::string(InstructionSetName(limit.set)),
                      fmt::format("{}", limit.threads), Giga(spread.median), Giga(spread.greatest),
                      "GOP/s"});
    }
  }
  text += TextTable({"limit", "set", "threads", "median", "most", "unit"}, rows) + "\n";
  rows.clear();
  for (const KernelFigure& figure : report.figures) {
    rows.push_back({fmt::format("{} {}", figure.product.model, figure.product.name),
                    std::string(WeightFormatName(figure.product.format)),
                    fmt::format("{} x {}", figure.product.rows, figure.product.cols),
                    std::string(InstructionSetName(figure.set)), fmt::format("{}", figure.threads),
                    fmt::format("{}", figure.x_rows), Giga(figure.bytes_per_second.median),
                    Giga(figure.ops_per_second.median), std::string(WallName(figure.wall)),
                    fmt::format("{:.2f}", figure.share.median)});
  }
  return text + TextTable({"product", "weights", "shape", "set", "threads", "rows", "GB/s", "GOP/s",
                           "wall", "share"},
                          rows);
}

Json KernelBenchJson(const KernelBenchReport& report) {
  Json read = Json::array();
  for (const ReadLimit& limit : report.read_limits) {
    read.push_back(
        {{"threads", limit.threads}, {"bytes_per_second", SpreadJson(limit.bytes_per_second)}});
  }
  Json compute = Json::array();
  for (const ComputeLimit& limit : report.compute_limits) {
    compute.push_back({{"instruction_set", InstructionSetName(limit.set)},
                       {"threads", limit.threads},
                       {"integer_ops_per_second", SpreadJson(limit.integer_ops_per_second)},
                       {"float_ops_per_second", SpreadJson(limit.float_ops_per_second)}});
  }
  Json figures = Json::array();
  for (const KernelFigure& figure : report.figures) {
    figures.push_back({{"model", figure.product.model},
                       {"product", figure.product.name},
                       {"weights", WeightFormatName(figure.product.format)},
                       {"rows", figure.product.rows},
                       {"cols", figure.product.cols},
                       {"instruction_set", InstructionSetName(figure.set)},
                       {"threads", figure.threads},
                       {"activation_rows", figure.x_rows},
                       {"bytes_per_second", SpreadJson(figure.bytes_per_second)},
                       {"ops_per_second", SpreadJson(figure.ops_per_second)},
                       {"wall", WallName(figure.wall)},
                       {"share", SpreadJson(figure.share)}});
  }
  return {{"cpu", report.cpu},
          {"cpus", report.num_cpus},
          {"build", report.build},
          {"buffer_bytes", report.buffer_bytes},
          {"read_limits", std::move(read)},
          {"compute_limits", std::move(compute)},
          {"kernels", std::move(figures)}};
}

}  // namespace picchio
