#include "apps/bench/run_bench_report.h"

#include <utility>
#include <vector>

#include "apps/bench/html_page.h"
#include "apps/bench/svg_chart.h"
#include "apps/bench/text_table.h"

namespace picchio {
namespace {

// Four digits at least before anything is rounded away.
std::string Number(double value) {
  return fmt::format("{:.{}f}", value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

std::string IntervalText(const RunComparison& row) {
  return row.interval ? fmt::format("{:.3f} to {:.3f}", row.interval->low, row.interval->high)
                      : "-";
}

std::vector<std::pair<std::string, std::string>> Facts(const RunBenchReport& report) {
  const RunSample& first = report.a.front();
  return {{"model", report.model},
          {"A", report.a_flags},
          {"B", report.b_flags},
          {"pairs", fmt::format("{}, every other one B first", report.a.size())},
          {"tokens", fmt::format("{} after a prompt of {}; all runs gave the same ids",
                                 first.ids.size(), first.prompt_tokens)},
          {"page cache",
           report.cold.empty() ? "as the runs left it" : "emptied before each run: " + report.cold},
          {"CPU", report.cpu},
          {"kernel", report.kernel},
          {"build", report.build}};
}

std::vector<std::string> Columns() {
  return {"median", "A", "B", "unit", "B / A", "95 % interval"};
}

std::vector<std::vector<std::string>> Rows(const RunBenchReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const RunComparison& row : Compare(report)) {
    rows.push_back({std::string(row.measure->name), Number(row.a), Number(row.b),
                    std::string(row.measure->unit),
                    row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-", IntervalText(row)});
  }
  return rows;
}

// A measure of each run, pair by pair.
Chart ChartOf(const RunBenchReport& report, size_t measure_idx) {
  const RunMeasure& measure = RunMeasures()[measure_idx];
  Chart chart{.title = fmt::format("{}, pair by pair", measure.name),
              .x_label = "pair",
              .y_label = std::string(measure.unit)};
  for (size_t pair = 0; pair < report.a.size(); ++pair) {
    chart.categories.push_back(fmt::format("{}", pair + 1));
  }
  for (const auto& [name, samples] : {std::pair("A", &report.a), std::pair("B", &report.b)}) {
    ChartSeries& line = chart.series.emplace_back(ChartSeries{.name = name});
    for (size_t pair = 0; pair < samples->size(); ++pair) {
      const double value = (*samples)[pair].values[measure_idx].value_or(0);
      line.points.push_back({pair, value, value, value});
    }
  }
  return chart;
}

Json SamplesJson(const std::vector<RunSample>& samples, size_t measure_idx) {
  Json values = Json::array();
  for (const RunSample& sample : samples) values.push_back(*sample.values[measure_idx]);
  return values;
}

}  // namespace

std::string RunBenchVerdict(const RunBenchReport& report) {
  const RunComparison decode = Compare(report).front();
  if (!decode.ratio) return "No token was decoded: there is nothing to compare.";
  const std::string rates = fmt::format("B decodes {:.3f} times as fast as A", *decode.ratio);
  if (!decode.interval) {
    return fmt::format("{}; {} pairs are too few to tell whether that is chance.", rates,
                       report.a.size());
  }
  const bool shown = decode.interval->low > 1 || decode.interval->high < 1;
  return fmt::format("{} (95 % interval {}): {}.", rates, IntervalText(decode),
                     shown ? "a difference" : "these pairs show no difference");
}

std::string RunBenchText(const RunBenchReport& report) {
  std::string text;
  for (const auto& [name, value] : Facts(report)) text += fmt::format("{:<12} {}\n", name, value);
  text += "\n" + TextTable(Columns(), Rows(report)) + "\n" + RunBenchVerdict(report) + "\n";
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json RunBenchJson(const RunBenchReport& report) {
  Json measures = Json::array();
  for (const RunComparison& row : Compare(report)) {
    const auto idx = static_cast<size_t>(row.measure - RunMeasures().data());
    Json interval = nullptr;
    if (row.interval) interval = {{"low", row.interval->low}, {"high", row.interval->high}};
    measures.push_back({{"measure", row.measure->key},
                        {"unit", row.measure->unit},
                        {"higher_is_better", row.measure->higher_is_better},
                        {"a", row.a},
                        {"b", row.b},
                        {"ratio", row.ratio ? Json(*row.ratio) : Json(nullptr)},
                        {"ratio_interval_95", std::move(interval)},
                        {"a_samples", SamplesJson(report.a, idx)},
                        {"b_samples", SamplesJson(report.b, idx)}});
  }
  return {{"model", report.model},
          {"a_flags", report.a_flags},
          {"b_flags", report.b_flags},
          {"pairs", report.a.size()},
          {"prompt_tokens", report.a.front().prompt_tokens},
          {"tokens", report.a.front().ids.size()},
          {"cold", report.cold.empty() ? Json(nullptr) : Json(report.cold)},
          {"cpu", report.cpu},
          {"kernel", report.kernel},
          {"build", report.build},
          {"measures", std::move(measures)},
          {"notes", report.notes}};
}

std::string RunBenchHtml(const RunBenchReport& report) {
  HtmlPage page("Two ways of running a model");
  page.AddParagraph(RunBenchVerdict(report));
  page.AddFacts(Facts(report));
  page.AddSvg(SvgChart(ChartOf(report, 0)));
  page.AddSvg(SvgChart(ChartOf(report, 1)));
  page.AddHeading("All figures");
  page.AddTable(Columns(), Rows(report));
  if (!report.notes.empty()) page.AddHeading("Notes");
  for (const std::string& note : report.notes) page.AddParagraph(note);
  return std::move(page).Finish();
}

}  // namespace picchio
