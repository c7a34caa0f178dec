#include "apps/bench/io_bench_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/bench/html_page.h"
#include "apps/bench/spread_json.h"
#include "apps/bench/svg_chart.h"
#include "apps/bench/text_table.h"
#include "base/human.h"

namespace picchio {
namespace {

std::string Rate(double bytes_per_second) { return fmt::format("{:.0f}", 1e-6 * bytes_per_second); }
std::string Microseconds(double seconds) { return fmt::format("{:.0f}", 1e6 * seconds); }
std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::vector<std::pair<std::string, std::string>> Facts(const IoBenchReport& report) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"store", report.store},
      {"drive", report.disk ? DescribeDisk(*report.disk) : "unknown: sysfs does not show it here"},
      {"file system", report.file_system},
      {"CPU", report.cpu},
      {"kernel", report.kernel},
      {"build", report.build},
      {"read", fmt::format("{} of {} records of {} bytes, {}, in random order", report.num_records,
                           report.num_all_records, report.record_bytes,
                           FormatBytes(report.num_records * report.record_bytes))},
      {"into", fmt::format("memory of which {} lies in huge pages", Percent(report.huge_share))}};
  for (const IoBenchSeries& series : report.series) {
    if (series.registered_bytes == 0) continue;
    facts.emplace_back("registered",
                       fmt::format("{} with io_uring", FormatMemory(series.registered_bytes)));
  }
  return facts;
}

std::vector<std::string> Notes(const IoBenchReport& report) {
  std::vector<std::string> notes = report.notes;
  for (const IoBenchSeries& series : report.series) {
    const std::string way(IoWayName(series.way));
    if (!series.unavailable.empty()) {
      notes.push_back(fmt::format("{} cannot be measured: {}", way, series.unavailable));
    }
    for (const std::string& note : series.notes) {
      notes.push_back(fmt::format("{}: {}", way, note));
    }
    if (series.points.empty()) continue;
    const bool warm = series.way == IoWay::kBufferedWarm;
    const auto [least, greatest] = std::ranges::minmax(
        series.points, {},
        [](const IoBenchPoint& point) { return point.storage_share.value_or(0); });
    if (warm && greatest.storage_share.value_or(0) > 0.01) {
      notes.push_back(fmt::format(
          "{}: not warm, {} of the bytes came from storage: the page cache does not hold the set",
          way, Percent(*greatest.storage_share)));
    }
    if (!warm && !series.FromStorage()) {
      notes.push_back(
          least.storage_share
              ? fmt::format("{}: no figure of the drive, it gave only {} of the bytes", way,
                            Percent(*least.storage_share))
              : fmt::format("{}: whether the bytes came from the drive cannot be seen here", way));
    }
  }
  if (report.num_checked > 0) {
    notes.push_back(fmt::format(
        "{} records are the model's, byte for byte, in every way of reading", report.num_checked));
  }
  return notes;
}

std::vector<std::string> Head() {
  return {"way",    "depth",  "MB/s",   "from",     "to",          "p50 us",
          "p90 us", "p99 us", "max us", "CPU s/GB", "from storage"};
}

std::vector<std::vector<std::string>> Rows(const IoBenchReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const IoBenchSeries& series : report.series) {
    for (const IoBenchPoint& point : series.points) {
      rows.push_back({std::string(IoWayName(series.way)), fmt::format("{}", point.depth),
                      Rate(point.bytes_per_second.median), Rate(point.bytes_per_second.least),
                      Rate(point.bytes_per_second.greatest), Microseconds(point.p50),
                      Microseconds(point.p90), Microseconds(point.p99), Microseconds(point.max),
                      fmt::format("{:.4f}", point.cpu_seconds_per_gb.median),
                      point.storage_share ? Percent(*point.storage_share) : "unknown"});
    }
  }
  return rows;
}

// One chart of all ways over the depths; `pick` gives value, low and high of a point.
template <typename Pick>
Chart ChartOf(const IoBenchReport& report, std::string title, std::string y_label, Pick pick) {
  Chart chart{
      .title = std::move(title), .x_label = "reads in flight", .y_label = std::move(y_label)};
  for (const IoBenchSeries& series : report.series) {
    if (series.points.empty()) continue;
    // All ways have the same depths.
    chart.categories.clear();
    ChartSeries& line =
        chart.series.emplace_back(ChartSeries{std::string(IoWayName(series.way)), {}});
    for (const IoBenchPoint& point : series.points) {
      const Spread spread = pick(point);
      line.points.push_back(
          {chart.categories.size(), spread.median, spread.least, spread.greatest});
      chart.categories.push_back(fmt::format("{}", point.depth));
    }
  }
  return chart;
}

Spread Scaled(const Spread& spread, double factor) {
  return {factor * spread.median, factor * spread.least, factor * spread.greatest};
}

}  // namespace

std::string IoBenchVerdict(const IoBenchReport& report) {
  const IoBenchSeries* fastest = report.Fastest();
  if (fastest == nullptr) {
    return "Nothing here can be read past the page cache: there is no figure of the drive.";
  }
  const std::string_view whose =
      fastest->FromStorage()
          ? "At least 99 % of the bytes came from the drive, by the kernel's count."
          : "That is no figure of the drive: less than 99 % of the bytes came from it, or the "
            "kernel "
            "does not say.";
  return fmt::format(
      "Peak {}/s by {} at depth {}; at depth {} already it was within 5 % of that. {}",
      FormatBytes(fastest->Peak()->bytes_per_second.median), IoWayName(fastest->way),
      fastest->peak_depth, fastest->plateau_depth, whose);
}

std::string IoBenchText(const IoBenchReport& report) {
  std::string text;
  for (const auto& [name, value] : Facts(report)) text += fmt::format("{:<12} {}\n", name, value);
  text += "\n" + TextTable(Head(), Rows(report)) + "\n" + IoBenchVerdict(report) + "\n";
  for (const std::string& note : Notes(report)) text += fmt::format("note: {}\n", note);
  return text;
}

Json IoBenchJson(const IoBenchReport& report) {
  Json all = Json::array();
  for (const IoBenchSeries& series : report.series) {
    Json points = Json::array();
    for (const IoBenchPoint& point : series.points) {
      points.push_back(
          {{"depth", point.depth},
           {"reads", point.num_reads},
           {"bytes_per_second", SpreadJson(point.bytes_per_second)},
           {"p50_us", 1e6 * point.p50},
           {"p90_us", 1e6 * point.p90},
           {"p99_us", 1e6 * point.p99},
           {"max_us", 1e6 * point.max},
           {"cpu_seconds_per_gb", SpreadJson(point.cpu_seconds_per_gb)},
           {"storage_share", point.storage_share ? Json(*point.storage_share) : Json(nullptr)}});
    }
    all.push_back(
        {{"way", IoWayName(series.way)},
         {"unavailable", series.unavailable.empty() ? Json(nullptr) : Json(series.unavailable)},
         {"notes", series.notes},
         {"registered_bytes", series.registered_bytes},
         {"from_storage", series.FromStorage()},
         {"peak_depth", series.peak_depth},
         {"plateau_depth", series.plateau_depth},
         {"points", std::move(points)}});
  }
  const IoBenchSeries* fastest = report.Fastest();
  Json peak = nullptr;
  if (fastest != nullptr) {
    peak = {{"way", IoWayName(fastest->way)},
            {"depth", fastest->peak_depth},
            {"plateau_depth", fastest->plateau_depth},
            {"bytes_per_second", fastest->Peak()->bytes_per_second.median},
            {"from_storage", fastest->FromStorage()}};
  }
  return {{"store", report.store},
          {"drive", report.disk ? Json(DescribeDisk(*report.disk)) : Json(nullptr)},
          {"file_system", report.file_system},
          {"cpu", report.cpu},
          {"kernel", report.kernel},
          {"build", report.build},
          {"record_bytes", report.record_bytes},
          {"records", report.num_records},
          {"records_of_store", report.num_all_records},
          {"whole_store", report.whole_store()},
          {"block_size", report.block_size},
          {"data_offset", report.data_offset},
          {"huge_share", report.huge_share},
          {"peak", std::move(peak)},
          {"ways", std::move(all)},
          {"checked_records", report.num_checked},
          {"notes", Notes(report)}};
}

std::string IoBenchHtml(const IoBenchReport& report) {
  HtmlPage page("How fast this storage gives experts");
  page.AddParagraph(IoBenchVerdict(report));
  page.AddFacts(Facts(report));
  page.AddSvg(SvgChart(
      ChartOf(report, "Rate: median of the rounds, bars from the least to the greatest", "MB/s",
              [](const IoBenchPoint& point) { return Scaled(point.bytes_per_second, 1e-6); })));
  Chart latency = ChartOf(
      report, "Time of a read: p99, bars from p50 to the longest", "milliseconds",
      [](const IoBenchPoint& point) {
        return Scaled({.median = point.p99, .least = point.p50, .greatest = point.max}, 1e3);
      });
  latency.logarithmic = true;
  page.AddSvg(SvgChart(latency));
  page.AddSvg(
      SvgChart(ChartOf(report, "CPU time: median of the rounds", "CPU seconds per GB",
                       [](const IoBenchPoint& point) { return point.cpu_seconds_per_gb; })));
  page.AddHeading("All figures");
  page.AddTable(Head(), Rows(report));
  const std::vector<std::string> notes = Notes(report);
  if (!notes.empty()) page.AddHeading("Notes");
  for (const std::string& note : notes) page.AddParagraph(note);
  return std::move(page).Finish();
}

}  // namespace picchio
