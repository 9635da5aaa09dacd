#include "profiler/fits/link_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "model/costs/measured_cost.hpp"
#include "model/text/reader.hpp"
#include "profiler/fits/source_text.hpp"

namespace moeplan::profiler {

namespace {

/// Bytes on a NIC for each byte of n; 0 if unknown.
double nic_share(const CollectiveSample& s, std::int64_t nics_per_node) {
  const double ranks = static_cast<double>(s.shape.ranks), per_node = s.shape.per_node();
  const double nics = std::min(static_cast<double>(nics_per_node), per_node);
  switch (s.collective) {
    case Collective::AllToAll: return per_node * (ranks - per_node) / ranks / nics;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllReduce: return sent_share(s.collective, s.shape.ranks) / nics;
    case Collective::SendReceive: return 1;
    case Collective::Broadcast: return per_node > 1 ? 0 : 1;
  }
  return 0;
}

/// The fastest of the largest messages of each collective and shape, by the bytes on the link for each byte of n.
template <class Share>
std::optional<LinkRate> fastest(std::span<const CollectiveSample> samples, bool is_intra_node, Share share) {
  const auto key = [](const CollectiveSample& s) { return std::tuple(s.collective, s.shape.nodes, s.shape.ranks); };
  const auto is_used = [&](const CollectiveSample& s) {
    return (s.shape.nodes == 1) == is_intra_node && s.n >= kLeastForRate;
  };
  std::map<std::tuple<Collective, std::int64_t, std::int64_t>, Bytes> largest;
  for (const CollectiveSample& s : samples) {
    if (is_used(s)) largest[key(s)] = std::max(largest[key(s)], s.n);
  }
  std::optional<LinkRate> out;
  for (const CollectiveSample& s : samples) {
    if (!is_used(s) || s.n < largest[key(s)]) continue;
    const BytesPerSecond rate = share(s) * s.n / s.time;
    if (rate > BytesPerSecond(0) && (!out || rate > out->rate)) out = LinkRate{rate, s};
  }
  return out;
}

}  // namespace

std::string LinkRate::source() const {
  const CollectiveSample& s = sample;
  return fmt::format("{} of {}{} on {} ranks of {} {}, {}:{}", name_of<Collective>(kCollectiveNames, s.collective),
                     human(s.n), s.in_place ? " in place" : "", s.shape.ranks, s.shape.nodes,
                     s.shape.nodes == 1 ? "node" : "nodes", listed_files({s.where.file}), s.where.line);
}

std::optional<LinkRate> intra_node_rate(std::span<const CollectiveSample> samples) {
  return fastest(samples, true, [](const CollectiveSample& s) { return sent_share(s.collective, s.shape.ranks); });
}

std::optional<LinkRate> nic_rate(std::span<const CollectiveSample> samples, std::int64_t nics_per_node) {
  return fastest(samples, false, [&](const CollectiveSample& s) { return nic_share(s, nics_per_node); });
}

}  // namespace moeplan::profiler
