#include "model/workload/routing_trace.hpp"

#include <cassert>

namespace moeplan {

RoutingTrace::RoutingTrace(std::vector<std::int64_t> iterations, std::int64_t layers, std::int64_t sources,
                           std::int64_t experts, std::vector<std::uint32_t> counts)
    : iterations_(std::move(iterations)),
      layers_(layers),
      sources_(sources),
      experts_(experts),
      counts_(std::move(counts)) {
  assert(layers > 0 && sources > 0 && experts > 0 && !iterations_.empty() && "a trace is of something");
  assert(counts_.size() == iterations_.size() * static_cast<std::size_t>(layers * sources * experts) &&
         "a count for every iteration, layer, source and expert");
}

std::span<const std::uint32_t> RoutingTrace::row(std::size_t iteration, std::int64_t layer, RankId source) const {
  const auto experts = static_cast<std::size_t>(experts_);
  const std::size_t layer_row = iteration * static_cast<std::size_t>(layers_) + static_cast<std::size_t>(layer);
  const std::size_t first = layer_row * static_cast<std::size_t>(sources_) + source.index();
  return std::span(counts_).subspan(first * experts, experts);
}

RoutingCounts RoutingTrace::counts(std::size_t iteration, std::int64_t layer) const {
  const std::uint32_t* first = row(iteration, layer, RankId(0)).data();
  return RoutingCounts::dense(sources_, experts_, std::vector<std::int64_t>(first, first + sources_ * experts_));
}

std::vector<std::int64_t> RoutingTrace::expert_load(std::size_t iteration, std::int64_t layer) const {
  std::vector<std::int64_t> load(static_cast<std::size_t>(experts_), 0);
  for (std::int32_t s = 0; s < sources_; ++s) {
    const auto one = row(iteration, layer, RankId(s));
    for (std::size_t e = 0; e < load.size(); ++e) load[e] += one[e];
  }
  return load;
}

RoutingTrace one_iteration(const RoutingTrace& trace, std::size_t iteration) {
  std::vector<std::uint32_t> counts;
  for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
    for (std::int64_t s = 0; s < trace.sources(); ++s) {
      const auto row = trace.row(iteration, layer, RankId(static_cast<std::int32_t>(s)));
      counts.insert(counts.end(), row.begin(), row.end());
    }
  }
  return {{trace.iterations()[iteration]}, trace.layers(), trace.sources(), trace.experts(), std::move(counts)};
}

}  // namespace moeplan
