// Line charts as SVG text, for reports that are one file: no scripts, nothing loaded from anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace picchio {

struct ChartPoint {
  size_t category = 0;  // Index into Chart::categories.
  double value = 0;     // At least 0, finite.
  double low = 0;       // Spread, drawn as a bar; equal to value for none.
  double high = 0;
};

struct ChartSeries {
  std::string name{};
  std::vector<ChartPoint> points{};  // By ascending category.
};

struct Chart {
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  std::vector<std::string> categories{};  // Along the x axis, evenly spaced.
  std::vector<ChartSeries> series{};      // At most 6: there are so many colours.
  bool logarithmic = false;               // The y axis; values of 0 are then left out.
};

// An <svg> element that is as wide as its place. Colours are the CSS classes s0 ... s5, `axis`,
// `grid` and `label` of html_page.h. Values show as tool tips. All text is escaped.
std::string SvgChart(const Chart& chart);

// "&lt;" for "<" and so on: text for HTML and SVG, attributes included.
std::string EscapeHtml(std::string_view text);

// Where to draw grid lines: at least two, from 0 to at least `greatest`, at 1, 2 or 5 times a power
// of ten.
std::vector<double> LinearTicks(double greatest);
// Powers of ten from at most `least` (above 0) to at least `greatest`.
std::vector<double> LogarithmicTicks(double least, double greatest);

}  // namespace picchio
