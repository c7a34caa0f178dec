#include "apps/bench/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace picchio {
namespace {

// The drawing's own units; it is scaled to the width of the page.
constexpr double kWidth = 760;
constexpr double kHeight = 320;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 74;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

std::string Text(double x, double y, std::string_view anchor, std::string_view css,
                 std::string_view text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)", x, y,
                     anchor, css, EscapeHtml(text));
}

std::string Line(double x1, double y1, double x2, double y2, std::string_view css) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", x1,
                     y1, x2, y2, css);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double least = std::numeric_limits<double>::max();
    double greatest = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (Left(point)) continue;
        least = std::min({least, point.low > 0 ? point.low : point.value, point.value});
        greatest = std::max({greatest, point.high, point.value});
      }
    }
    logarithmic_ = chart.logarithmic && greatest > 0;
    ticks_ = logarithmic_ ? LogarithmicTicks(least, greatest) : LinearTicks(greatest);
  }

  std::string Svg() const {
    std::string svg = fmt::format(
        R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">)",
        kWidth, kHeight, EscapeHtml(chart_.title));
    svg += Text(kLeft, 18, "start", "title", chart_.title);
    svg += Axes();
    for (size_t i = 0; i < chart_.series.size(); ++i) svg += Series(i);
    svg += Legend();
    return svg + "</svg>\n";
  }

 private:
  bool Left(const ChartPoint& point) const { return chart_.logarithmic && point.value <= 0; }

  double X(size_t category) const {
    const auto count = static_cast<double>(std::max<size_t>(chart_.categories.size(), 1));
    return kLeft + kPlotWidth * (static_cast<double>(category) + 0.5) / count;
  }
  double Y(double value) const {
    double share;
    if (logarithmic_) {
      const double first = std::log10(ticks_.front());
      const double span = std::log10(ticks_.back()) - first;
      share = (std::log10(std::max(value, ticks_.front())) - first) / span;
    } else {
      share = value / ticks_.back();
    }
    return kTop + kPlotHeight * (1 - std::clamp(share, 0.0, 1.0));
  }

  std::string Axes() const {
    std::string svg;
    for (const double tick : ticks_) {
      svg +=
          Line(kLeft, Y(tick), kWidth - kRight, Y(tick), tick == ticks_.front() ? "axis" : "grid");
      svg += Text(kLeft - 8, Y(tick) + 4, "end", "label", fmt::format("{:g}", tick));
    }
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      svg += Text(X(i), kTop + kPlotHeight + 18, "middle", "label", chart_.categories[i]);
    }
    svg += Text(kLeft + kPlotWidth / 2, kTop + kPlotHeight + 36, "middle", "label", chart_.x_label);
    svg += fmt::format(
        R"svg(<text transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle" class="label">{}</text>)svg",
        kTop + kPlotHeight / 2, EscapeHtml(chart_.y_label));
    return svg;
  }

  std::string Series(size_t series_idx) const {
    const ChartSeries& series = chart_.series[series_idx];
    std::string path;
    std::string marks;
    for (const ChartPoint& point : series.points) {
      if (Left(point)) continue;
      const double x = X(point.category);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, Y(point.value));
      if (point.high > point.low) {
        marks += Line(x, Y(point.low), x, Y(point.high), fmt::format("spread s{}", series_idx));
      }
      marks += fmt::format(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="4" class="dot s{}"><title>{}, {}: {:g} ({:g} to {:g})</title></circle>)",
          x, Y(point.value), series_idx, EscapeHtml(series.name),
          EscapeHtml(chart_.categories[point.category]), point.value, point.low, point.high);
    }
    return fmt::format(R"(<path d="{}" class="line s{}"/>)", path, series_idx) + marks;
  }

  std::string Legend() const {
    std::string svg;
    double x = kLeft;
    const double y = kHeight - 12;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      svg += Line(x, y - 4, x + 22, y - 4, fmt::format("line s{}", i));
      svg += Text(x + 28, y, "start", "label", chart_.series[i].name);
      x += 52 + 7 * static_cast<double>(chart_.series[i].name.size());
    }
    return svg;
  }

  const Chart& chart_;
  bool logarithmic_ = false;
  std::vector<double> ticks_;
};

}  // namespace

std::string SvgChart(const Chart& chart) { return Drawing(chart).Svg(); }

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::vector<double> LinearTicks(double greatest) {
  if (!(greatest > 0)) return {0, 1};
  // Four to eight lines.
  const double rough = greatest / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks = {0};
  while (ticks.back() < greatest) ticks.push_back(static_cast<double>(ticks.size()) * step);
  return ticks;
}

std::vector<double> LogarithmicTicks(double least, double greatest) {
  auto exponent = std::floor(std::log10(least));
  std::vector<double> ticks = {std::pow(10.0, exponent)};
  do {
    ticks.push_back(std::pow(10.0, ++exponent));
  } while (ticks.back() < greatest);
  return ticks;
}

}  // namespace picchio
