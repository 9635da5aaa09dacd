#include "cli/pages/communication_price.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/pages/text/wrapping.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

std::string communication_price_page(const CommunicationPrice& price) {
  std::string out;
  for (const CommunicationTime& t : price.times) {
    out += fmt::format("{} on {}: {}\n", t.name, price.cluster, price.what);
    out += labelled("time", human(t.time), 18) + labelled("bound by", t.bound, 18);
    for (const auto& [name, time] : t.parts) {
      if (time > Seconds(0)) out += fmt::format("    {:<14}{}\n", name, human(time));
    }
    out += labelled("algorithm", t.algorithm, 18);
    if (!t.beyond_data.empty()) out += labelled("beyond its data", t.beyond_data, 18);
  }
  for (const auto& [part, text] : price.origins) {
    out += labelled("origin", (part.empty() ? "" : part + " ") + text, 18);
  }
  return out;
}

std::string communication_price_json(const CommunicationPrice& price) {
  nlohmann::ordered_json times = nlohmann::ordered_json::array();
  for (const CommunicationTime& t : price.times) {
    nlohmann::ordered_json parts = nlohmann::ordered_json::object();
    for (const auto& [name, time] : t.parts) parts[name] = time.value();
    times.push_back({{"name", t.name},
                     {"time_s", t.time.value()},
                     {"bound", t.bound},
                     {"algorithm", t.algorithm},
                     {"parts_s", parts},
                     {"beyond_data", t.beyond_data}});
  }
  nlohmann::ordered_json origins = nlohmann::ordered_json::object();
  for (const auto& [part, text] : price.origins) origins[part] = text;
  nlohmann::ordered_json out{{"schema_version", 1}, {"kind", price.kind},        {"cluster", price.cluster},
                             {"what", price.what},  {"times", std::move(times)}, {"origins", std::move(origins)}};
  return out.dump(2) + "\n";
}

}  // namespace moeplan::cli
