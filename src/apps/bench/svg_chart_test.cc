#include "apps/bench/svg_chart.h"

#include <string>
#include <vector>

#include "apps/bench/html_page.h"
#include "apps/bench/sample_statistics.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Whether every element that is opened is closed, in the right order: what XML asks for, and what
// our HTML keeps to but for the two elements that have no end.
bool IsBalanced(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.starts_with("!") || tag.starts_with("meta") || tag.ends_with("/")) continue;
    const std::string name = tag.substr(tag.starts_with("/") ? 1 : 0, tag.find(' '));
    if (!tag.starts_with("/")) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

Chart TwoLines() {
  return {.title = "Rate & <more>",
          .x_label = "depth",
          .y_label = "MB/s",
          .categories = {"1", "2", "4"},
          .series = {{"uring", {{0, 100, 90, 110}, {1, 200, 200, 200}, {2, 400, 390, 420}}},
                     {"direct", {{0, 50, 50, 50}, {2, 0, 0, 0}}}}};
}

TEST(SvgChartTest, DrawsEveryPointAndSpread) {
  const std::string svg = SvgChart(TwoLines());
  EXPECT_TRUE(IsBalanced(svg)) << svg;
  size_t dots = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 5U);
  size_t spreads = 0;
  for (size_t at = 0; (at = svg.find("class=\"spread", at)) != std::string::npos; ++at) ++spreads;
  EXPECT_EQ(spreads, 2U);
  EXPECT_THAT(svg, HasSubstr("uring, 4: 400 (390 to 420)"));
  EXPECT_THAT(svg, HasSubstr("Rate &amp; &lt;more&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

// Twice the value is twice as high above the axis: 0 at 280 - 34 = 246 below the top of the plot.
TEST(SvgChartTest, HeightsAreInProportion) {
  const Chart chart{.categories = {"a", "b"},
                    .series = {{"s", {{0, 100, 100, 100}, {1, 50, 50, 50}}}}};
  const std::string svg = SvgChart(chart);
  const auto height = [&](size_t which) {
    size_t at = svg.find("<circle");
    for (; which > 0; --which) at = svg.find("<circle", at + 1);
    return std::stod(svg.substr(svg.find("cy=\"", at) + 4));
  };
  const double bottom = 320 - 74;
  EXPECT_NEAR(bottom - height(0), 2 * (bottom - height(1)), 0.2);
}

TEST(SvgChartTest, LogarithmicChartsLeaveZeroOut) {
  Chart chart = TwoLines();
  chart.logarithmic = true;
  const std::string svg = SvgChart(chart);
  EXPECT_TRUE(IsBalanced(svg));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  size_t dots = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != std::string::npos; ++at) ++dots;
  EXPECT_EQ(dots, 4U);
}

TEST(SvgChartTest, AnEmptyChartIsStillOne) {
  for (const bool logarithmic : {false, true}) {
    const std::string svg = SvgChart({.title = "none", .logarithmic = logarithmic});
    EXPECT_TRUE(IsBalanced(svg));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
  }
}

TEST(SvgChartTest, Ticks) {
  EXPECT_THAT(LinearTicks(0), ElementsAre(0, 1));
  EXPECT_THAT(LinearTicks(10), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(LinearTicks(11), ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(LinearTicks(3100), ElementsAre(0, 1000, 2000, 3000, 4000));
  EXPECT_THAT(LogarithmicTicks(0.5, 20), ElementsAre(0.1, 1, 10, 100));
  EXPECT_THAT(LogarithmicTicks(1, 1), ElementsAre(1, 10));
}

TEST(HtmlPageTest, IsOneEscapedAndBalancedFile) {
  HtmlPage page("A <title>");
  page.AddHeading("b & c");
  page.AddParagraph("d < e");
  page.AddFacts({{"name", "\"quoted\""}});
  page.AddTable({"way", "rate"}, {{"<uring>", "1"}});
  page.AddSvg(SvgChart(TwoLines()));
  const std::string html = std::move(page).Finish();
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(IsBalanced(html));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("<td>&lt;uring&gt;</td>"));
  // Nothing is loaded from anywhere.
  for (const char* outside : {"<script", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
}

TEST(SampleStatisticsTest, MediansAndQuantiles) {
  EXPECT_EQ(SpreadOf({}).median, 0);
  EXPECT_EQ(SpreadOf({3}).median, 3);
  const Spread even = SpreadOf({4, 1, 3, 10});
  EXPECT_EQ(even.median, 3.5);
  EXPECT_EQ(even.least, 1);
  EXPECT_EQ(even.greatest, 10);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(Quantile(hundred, 0.5), 50);
  EXPECT_EQ(Quantile(hundred, 0.99), 99);
  EXPECT_EQ(Quantile(hundred, 1), 100);
  EXPECT_EQ(Quantile(hundred, 0), 1);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace picchio
