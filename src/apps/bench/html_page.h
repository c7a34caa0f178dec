// A report as one HTML file that needs nothing else: style inside, light or dark as the reader's
// system is.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace picchio {

// The parts of a page's body, in order. Text is escaped here.
class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title);

  void AddHeading(std::string_view text);
  void AddParagraph(std::string_view text);
  // Name and value, one a line.
  void AddFacts(const std::vector<std::pair<std::string, std::string>>& facts);
  // Rows under a head; the first column is text, the others are aligned as numbers.
  void AddTable(const std::vector<std::string>& head,
                const std::vector<std::vector<std::string>>& rows);
  void AddSvg(std::string_view svg);  // As SvgChart makes it: not escaped.

  std::string Finish() &&;  // The whole file.

 private:
  std::string html_;
};

}  // namespace picchio
