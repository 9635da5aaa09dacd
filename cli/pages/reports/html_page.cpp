#include "cli/pages/reports/html_page.hpp"

#include <fmt/format.h>

#include <cctype>

#include "cli/pages/figures/palette.hpp"
#include "cli/pages/figures/svg_parts.hpp"

namespace moeplan::cli {

namespace {

// Colours are those of the figures. Up to 820 pixels, figures are the narrow ones.
constexpr const char* kPageStyle = R"css(
:root{color-scheme:light dark;--page:#fff;--ink:#18222d;--muted:#566473;--line:#e2e7ed;--panel:#f6f8fa;--accent:#2f6fb5}
@media (prefers-color-scheme:dark){:root{--page:#11171d;--ink:#e8edf2;--muted:#9dadbd;--line:#2a343f;--panel:#1a222b;--accent:#5d9fe6}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 "Helvetica Neue",Arial,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1024px;margin:0 auto;padding:0 32px}
header{padding-top:40px}
h1{font-size:28px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:20px;line-height:1.3;margin:0 0 4px}
h3{font-size:15px;line-height:1.3;margin:24px 0 4px}
p{margin:0 0 12px;max-width:76ch}
.sub,.note,footer{color:var(--muted)}
.sub{font-size:15px}.note{font-size:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:24px 0}
.tile{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:14px 16px}
.tile b{display:block;font-size:22px;line-height:1.25;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tile span{font-size:13px;color:var(--muted)}
section{border-top:1px solid var(--line);padding:28px 0 20px}
figure{margin:18px 0 0}
svg.fig{display:block;width:100%;height:auto}
svg.narrow{display:none;max-width:520px}
.scroll{overflow-x:auto;margin-top:14px}
table{border-collapse:collapse;font-size:14px;line-height:1.4;font-variant-numeric:tabular-nums;min-width:100%}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
th{color:var(--muted);font-weight:600;vertical-align:bottom}
.n{text-align:right;white-space:nowrap}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:2px 28px;margin:14px 0 0}
.facts div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--line);padding:5px 0;font-size:14px}
.facts dt{color:var(--muted)}.facts dd{margin:0;flex:none;max-width:70%;text-align:right;font-variant-numeric:tabular-nums}
details{margin-top:12px;font-size:14px}summary{cursor:pointer;color:var(--accent)}
li{margin:3px 0}
footer{font-size:13px;padding-top:20px;padding-bottom:48px;border-top:1px solid var(--line)}
@media (max-width:820px){header,main,footer{padding-left:20px;padding-right:20px}header{padding-top:24px}h1{font-size:23px}svg.wide{display:none}svg.narrow{display:block}.tiles{grid-template-columns:repeat(auto-fit,minmax(136px,1fr));gap:8px}.tile{padding:10px 12px}.tile b{font-size:19px}table{font-size:13px}th,td{padding-right:8px}}
@media print{section{break-inside:avoid}details{display:none}}
)css";

/// JSON without the characters that have a meaning in XML and HTML.
std::string json_for_html(const std::string& json) {
  std::string out;
  for (const char c : json) {
    switch (c) {
      case '<': out += "\\u003c"; break;
      case '>': out += "\\u003e"; break;
      case '&': out += "\\u0026"; break;
      default: out += c;
    }
  }
  return out;
}

std::string figure_html(const Figure& f, bool has_title) {
  std::string out = "<figure>\n";
  if (has_title) out += fmt::format("<h3>{}</h3>\n", xml_text(f.title));
  if (!f.note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", xml_text(f.note));
  return out + f.wide + f.narrow + "</figure>\n";
}

std::string section_html(const ReportSection& s) {
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n", xml_text(s.title));
  for (const std::string& p : s.paragraphs) out += fmt::format("<p class=\"note\">{}</p>\n", xml_text(p));
  for (std::size_t i = 0; i < s.figures.size(); ++i) out += figure_html(s.figures[i], s.figures[i].title != s.title);
  return out + s.html + "</section>\n";
}

}  // namespace

std::string html_page(const Report& r) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n"
      "<header>\n<h1>{}</h1>\n<p class=\"sub\">{}</p>\n</header>\n<main>\n",
      xml_text(r.title), kPageStyle, figure_style(), xml_text(r.title), xml_text(r.subtitle));
  if (!r.tiles.empty()) {
    out += "<div class=\"tiles\">\n";
    for (const ReportTile& t : r.tiles)
      out += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", xml_text(t.value), xml_text(t.name));
    out += "</div>\n";
  }
  for (const std::string& p : r.lead) out += fmt::format("<p>{}</p>\n", xml_text(p));
  for (const ReportSection& s : r.sections) out += section_html(s);
  out += fmt::format("</main>\n<footer>Made by moeplan. This page has no scripts and loads nothing.{}</footer>\n",
                     r.data.empty() ? "" : " It contains its numbers with all digits, as JSON in its source.");
  if (!r.data.empty())
    out += fmt::format("<script type=\"application/json\" id=\"data\">\n{}</script>\n", json_for_html(r.data));
  return out + "</body>\n</html>\n";
}

std::string html_table(const std::vector<HtmlColumn>& columns, const std::vector<std::vector<std::string>>& rows) {
  const auto of_column = [&](std::size_t i) { return columns[i].is_number ? " class=\"n\"" : ""; };
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < columns.size(); ++i)
    out += fmt::format("<th{}>{}</th>", of_column(i), xml_text(columns[i].title));
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) out += fmt::format("<td{}>{}</td>", of_column(i), xml_text(row[i]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string capitalised(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts)
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", xml_text(name), xml_text(value));
  return out + "</dl>\n";
}

std::string html_details(const std::string& summary, const std::vector<std::string>& items) {
  std::string out = fmt::format("<details><summary>{}</summary><ul>\n", xml_text(summary));
  for (const std::string& i : items) out += fmt::format("<li>{}</li>\n", xml_text(i));
  return out + "</ul></details>\n";
}

}  // namespace moeplan::cli
