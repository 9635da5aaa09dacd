// A report as one HTML file: no scripts, no fonts, nothing that is fetched; light and dark as the reader's system is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/pages/figures/figure.hpp"

namespace moeplan::cli {

/// A number that the page begins with: "4.413 s", "an iteration".
struct ReportTile {
  std::string value, name;
};

/// A part of the page under a heading. Texts are plain.
struct ReportSection {
  std::string title;
  std::vector<std::string> paragraphs = {};
  std::vector<Figure> figures = {};
  std::string html = {};  // after the figures
};

struct Report {
  std::string title;
  std::string subtitle;
  std::vector<ReportTile> tiles;
  std::vector<std::string> lead;  // paragraphs: the answer in a few sentences
  std::vector<ReportSection> sections;
  std::string data;  // JSON: the numbers with all their digits
};

/// The page, which is also well-formed XML; the same report gives the same bytes.
[[nodiscard]] std::string html_page(const Report& report);

/// The parts of a table: columns with `is_number` are aligned to the right.
struct HtmlColumn {
  std::string title;
  bool is_number = false;
};
[[nodiscard]] std::string html_table(const std::vector<HtmlColumn>& columns,
                                     const std::vector<std::vector<std::string>>& rows);

/// The text with a capital letter first.
[[nodiscard]] std::string capitalised(std::string text);

/// Names with their values, side by side where there is room.
[[nodiscard]] std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

/// A list that is closed at first, under its summary.
[[nodiscard]] std::string html_details(const std::string& summary, const std::vector<std::string>& items);

}  // namespace moeplan::cli
