#include "apps/bench/html_page.h"

#include "apps/bench/svg_chart.h"

namespace picchio {
namespace {

// The series' colours can be told apart without seeing red and green (after Okabe and Ito), on
// either ground.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1c2126; --soft: #5c6670;
  --grid: #dde2e7; --s0: #0072b2; --s1: #d55e00; --s2: #008f68; --s3: #a3558a; --s4: #8a6d00;
  --s5: #4d5660; }
@media (prefers-color-scheme: dark) { :root { --ground: #14181c; --ink: #e6e9ec; --soft: #a2acb5;
  --grid: #333b43; --s0: #56b4e9; --s1: #ff9447; --s2: #2fd3a2; --s3: #e39cc9; --s4: #f0e442;
  --s5: #b6bec6; } }
body { background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { border-bottom: 1px solid var(--grid); padding: .25rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
svg { display: block; height: auto; margin: 1rem 0; width: 100%; }
.title { fill: var(--ink); font-size: 15px; font-weight: 600; }
.label { fill: var(--soft); font-size: 12px; }
.axis { stroke: var(--soft); } .grid { stroke: var(--grid); }
.line { fill: none; stroke: var(--c); stroke-width: 2; } .dot { fill: var(--c); }
.spread { stroke: var(--c); stroke-width: 1.5; opacity: .55; }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); }
)";

}  // namespace

HtmlPage::HtmlPage(std::string_view title) {
  const std::string escaped = EscapeHtml(title);
  html_ = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html_ += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  html_ += escaped + "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n";
  html_ += "<h1>" + escaped + "</h1>\n";
}

void HtmlPage::AddHeading(std::string_view text) { html_ += "<h2>" + EscapeHtml(text) + "</h2>\n"; }

void HtmlPage::AddParagraph(std::string_view text) { html_ += "<p>" + EscapeHtml(text) + "</p>\n"; }

void HtmlPage::AddFacts(const std::vector<std::pair<std::string, std::string>>& facts) {
  html_ += "<dl>\n";
  for (const auto& [name, value] : facts) {
    html_ += "<dt>" + EscapeHtml(name) + "</dt><dd>" + EscapeHtml(value) + "</dd>\n";
  }
  html_ += "</dl>\n";
}

void HtmlPage::AddTable(const std::vector<std::string>& head,
                        const std::vector<std::vector<std::string>>& rows) {
  html_ += "<div class=\"wide\"><table>\n<thead><tr>";
  for (const std::string& cell : head) html_ += "<th>" + EscapeHtml(cell) + "</th>";
  html_ += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html_ += "<tr>";
    for (const std::string& cell : row) html_ += "<td>" + EscapeHtml(cell) + "</td>";
    html_ += "</tr>\n";
  }
  html_ += "</tbody></table></div>\n";
}

void HtmlPage::AddSvg(std::string_view svg) { html_ += svg; }

std::string HtmlPage::Finish() && { return std::move(html_) + "</body>\n</html>\n"; }

}  // namespace picchio
