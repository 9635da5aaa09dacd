// A check of a page's layout by headless Chromium: no text covers another one or leaves its figure, and nothing is
// wider than the window.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests {

/// The command of a Chromium that can be started here; "" if there is none.
inline std::string chromium() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0) return name;
  }
  return "";
}

/// Runs in the page, and reports to the page that holds it in a frame: of all texts that are shown, those that overlap,
/// are cut, or leave their figure.
inline constexpr const char* kLayoutScript = R"js(
addEventListener('load', () => {
  const found = [];
  const shown = [...document.querySelectorAll('svg text, h1, h2, h3, p, th, td, dt, dd, b, span, summary, footer')]
    .filter(e => e.textContent.trim() !== '')
    .map(e => ({e, r: e.getBoundingClientRect()}))
    .filter(({r}) => r.width > 0 && r.height > 0)
    .sort((a, b) => a.r.top - b.r.top);
  const name = e => e.textContent.trim().slice(0, 40);
  const slack = 2;  // pixels: boxes of texts are higher than their letters
  for (let i = 0; i < shown.length; ++i) {
    const a = shown[i];
    for (let j = i + 1; j < shown.length && shown[j].r.top < a.r.bottom - slack; ++j) {
      const b = shown[j];
      if (a.e.contains(b.e) || b.e.contains(a.e)) continue;
      if (a.r.left < b.r.right - slack && b.r.left < a.r.right - slack && b.r.top < a.r.bottom - slack)
        found.push('overlap: ' + name(a.e) + ' | ' + name(b.e));
    }
    if (name(a.e).endsWith('\u2026')) found.push('cut: ' + name(a.e));
    const svg = a.e.closest('svg');
    if (!svg) continue;
    const s = svg.getBoundingClientRect();
    if (a.r.left < s.left - slack || a.r.right > s.right + slack || a.r.top < s.top - slack || a.r.bottom > s.bottom + slack)
      found.push('outside its figure: ' + name(a.e));
  }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
    found.push('wider than the window: ' + document.documentElement.scrollWidth);
  parent.postMessage({width: document.documentElement.clientWidth, texts: shown.length, found: found.slice(0, 20)}, '*');
});
)js";

/// What the check says about the page, in a window of this width: "width 400, N texts: " and what it found; "" if
/// Chromium could not be run.
inline std::string layout_of(const Cli& cli, const std::string& page, int width) {
  std::string checked = whole_file(cli.path(page));
  const std::size_t end = checked.rfind("</body>");
  checked.insert(end, std::string("<script>") + kLayoutScript + "</script>");
  (void)cli.write("checked.html", checked);
  (void)cli.write(
      "frame.html",
      "<!DOCTYPE html><html><body><pre id=\"said\"></pre><script>addEventListener('message', m => {"
      "document.getElementById('said').textContent = 'SAID width ' + m.data.width + ', ' + (m.data.texts > 0 ? "
      "'texts' : 'no texts') + ': ' + m.data.found.join('; ') + 'END';});</script><iframe src=\"checked.html\" "
      "style=\"border:0;height:2000px;width:" +
          std::to_string(width) + "px\"></iframe></body></html>");
  const std::string command = chromium() +
                              " --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1400,2000 "
                              "--virtual-time-budget=5000 --user-data-dir=" +
                              cli.path("profile") + " --dump-dom file://" + cli.path("frame.html") + " > " +
                              cli.path("dom.html") + " 2> " + cli.path("chromium.err");
  if (std::system(command.c_str()) != 0) return "";
  const std::string dom = whole_file(cli.path("dom.html"));
  const std::size_t from = dom.find("SAID "), to = dom.find("END", from);
  return from == std::string::npos || to == std::string::npos ? "" : dom.substr(from + 5, to - from - 5);
}

}  // namespace moeplan::tests
