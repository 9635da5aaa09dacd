#include "sim/program/link_tracks.hpp"

#include <fmt/format.h>

#include "model/text/unit_text.hpp"
#include "sim/program/simulate_stages.hpp"

namespace moeplan::sim {

std::vector<LinkTrack> busiest_link_tracks(const Program& program, StageClusters& machines, const Timeline& timeline,
                                           std::size_t most) {
  const Topology& topology = machines.cluster().topology;
  const std::vector<BusyLink> busiest = busiest_links(timeline, topology, most);
  SimulateOptions options{.keep_spans = false};
  for (const BusyLink& b : busiest) options.watch.push_back(b.link);
  if (options.watch.empty()) return {};
  const Timeline watched = simulate(program, machines, options);
  std::vector<LinkTrack> tracks;
  for (std::size_t i = 0; i < busiest.size(); ++i) {
    const Link& link = topology.links[busiest[i].link.index()];
    std::string name = fmt::format("{} ({}", topology.link_name(busiest[i].link), human(link.bandwidth));
    if (busiest[i].equivalent > 1) name += fmt::format(", {} equivalent links", busiest[i].equivalent);
    tracks.push_back({name + ")", link_rates(watched, watched.link_history[i])});
  }
  return tracks;
}

}  // namespace moeplan::sim
