#include "cli/pages/price_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/pages/text/wrapping.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

std::string price_page(const PriceReport& r) {
  std::string out = fmt::format("{} on {}{}, {}\n", r.kind, r.gpu, r.format.empty() ? "" : " in " + r.format, r.phase);
  out += fmt::format("  {:<16}{}\n", "time", human(r.time));
  if (r.flops > Flops(0)) out += fmt::format("  {:<16}{}\n", "rate", human(r.flops / r.time));
  out += fmt::format("  {:<16}{}\n", "bound by", r.bound);
  for (const auto& [name, time] : r.parts) {
    if (time > Seconds(0)) out += fmt::format("    {:<14}{}\n", name, human(time));
  }
  if (!r.tile.empty()) out += fmt::format("  {:<16}{}\n", "tile", r.tile);
  return out + labelled("figures of", r.library, 18) + labelled("origin", r.origin, 18);
}

std::string price_json(const PriceReport& r) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const auto& [name, time] : r.parts) parts[name] = time.value();
  nlohmann::ordered_json out{{"schema_version", 1},      {"kind", r.kind},       {"gpu", r.gpu},
                             {"format", r.format},       {"phase", r.phase},     {"time_s", r.time.value()},
                             {"bound", r.bound},         {"parts_s", parts},     {"tile", r.tile},
                             {"flops", r.flops.value()}, {"library", r.library}, {"origin", r.origin}};
  return out.dump(2) + "\n";
}

}  // namespace moeplan::cli
