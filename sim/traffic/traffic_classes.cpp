#include "sim/traffic/traffic_classes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "model/base/random.hpp"

namespace moeplan::sim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // relative rounding error of sums in different orders

using moeplan::mixed;
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return mixed(a + 0x9e3779b97f4a7c15U * (b + 1)); }
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

bool is_sent(const TrafficFlow& f) { return f.src != f.dst && f.bytes > 0; }

std::size_t number_of_distinct(std::vector<std::uint64_t> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

/// The uses of all flows as a sparse matrix.
struct Incidence {
  std::vector<std::size_t> first{0};
  std::vector<FlowUse> uses;
};

class Refinement {
 public:
  Refinement(const TrafficMatrix& matrix, const TrafficNetwork& network)
      : flows_(matrix.flows), network_(network), resource_colour_(network.capacity.size()) {}

  std::optional<TrafficClasses> classes() {
    if (!is_promising()) return std::nullopt;
    std::vector<FlowUse> uses;
    ways_.uses.reserve(number_of_uses_);
    ways_.first.reserve(flows_.size() + 1);
    flow_colour_.reserve(flows_.size());
    for (const TrafficFlow& f : flows_) {
      uses.clear();
      if (is_sent(f)) network_.route(f.src, f.dst, uses);
      ways_.uses.insert(ways_.uses.end(), uses.begin(), uses.end());
      ways_.first.push_back(ways_.uses.size());
      flow_colour_.push_back(bits(f.bytes));
    }
    if (!refine()) return std::nullopt;
    return quotient();
  }

 private:
  std::span<const FlowUse> uses_of(std::size_t f) const {
    return std::span(ways_.uses).subspan(ways_.first[f], ways_.first[f + 1] - ways_.first[f]);
  }

  /// Whether the sizes on each resource alone do not already imply too many classes. Two passes, one bit per flow.
  bool is_promising() {
    std::vector<bool> is_used(resource_colour_.size());
    std::vector<FlowUse> uses;
    for (const TrafficFlow& f : flows_) {
      if (!is_sent(f)) continue;
      uses.clear();
      network_.route(f.src, f.dst, uses);
      for (const FlowUse& use : uses) {
        resource_colour_[use.resource.index()] += mixed(bits(f.bytes), bits(use.share));
        is_used[use.resource.index()] = true;
      }
      number_of_uses_ += uses.size();
    }
    std::vector<std::uint64_t> used;
    for (std::size_t l = 0; l < is_used.size(); ++l) {
      resource_colour_[l] = mixed(resource_colour_[l], bits(network_.capacity[l]));
      if (is_used[l]) used.push_back(resource_colour_[l]);
    }
    if (number_of_distinct(used) * 4 > used.size() * 3) return false;
    // Different colours may share a bit, so there are at least as many colours as bits set.
    std::vector<bool> is_seen(flows_.size());
    std::size_t seen = 0;
    for (const TrafficFlow& f : flows_) {
      uses.clear();
      if (is_sent(f)) network_.route(f.src, f.dst, uses);
      const std::size_t bit = next_colour(bits(f.bytes), uses) % is_seen.size();
      if (!is_seen[bit]) ++seen;
      is_seen[bit] = true;
    }
    return seen * 4 <= flows_.size();
  }

  /// A flow's colour, refined by the colours of the resources that it crosses.
  std::uint64_t next_colour(std::uint64_t colour, std::span<const FlowUse> uses) const {
    std::uint64_t sum = 0;
    for (const FlowUse& use : uses) sum += mixed(resource_colour_[use.resource.index()], bits(use.share));
    return mixed(colour, sum);
  }

  /// Refines the colours until they do not split further; false if there are too many.
  bool refine() {
    std::size_t classes = 0;
    while (true) {
      for (std::size_t f = 0; f < flow_colour_.size(); ++f) {
        flow_colour_[f] = next_colour(flow_colour_[f], uses_of(f));
      }
      std::vector<std::uint64_t> sums(resource_colour_.size(), 0);
      for (std::size_t f = 0; f < flow_colour_.size(); ++f) {
        for (const FlowUse& use : uses_of(f)) sums[use.resource.index()] += mixed(flow_colour_[f], bits(use.share));
      }
      for (std::size_t l = 0; l < sums.size(); ++l) resource_colour_[l] = mixed(resource_colour_[l], sums[l]);
      const std::size_t flow_classes = number_of_distinct(flow_colour_);
      if (flow_classes * 4 > flow_colour_.size()) return false;
      const std::size_t now = flow_classes + number_of_distinct(resource_colour_);
      if (now == classes) return true;
      classes = now;
    }
  }

  using Loads = std::vector<std::pair<std::int32_t, double>>;  // flow class, load; by class

  /// Numbers the colours, sums each resource's loads, and verifies that the partition is equitable; none if it is not.
  std::optional<TrafficClasses> quotient() const {
    TrafficClasses result;
    std::vector<std::int32_t> class_of_resource;
    std::vector<std::size_t> example;  // one resource of each class
    std::unordered_map<std::uint64_t, std::int32_t> number;
    for (std::size_t l = 0; l < resource_colour_.size(); ++l) {
      const auto [entry, is_new] = number.try_emplace(resource_colour_[l], static_cast<std::int32_t>(example.size()));
      if (is_new) {
        example.push_back(l);
        result.capacity.push_back(network_.capacity[l]);
      }
      class_of_resource.push_back(entry->second);
    }
    number.clear();
    std::vector<std::vector<std::pair<std::int32_t, double>>> pattern;  // of one flow of each class
    std::vector<Loads> loads(resource_colour_.size());
    for (std::size_t f = 0; f < flows_.size(); ++f) {
      if (uses_of(f).empty()) {
        result.class_of_flow.push_back(-1);
        continue;
      }
      std::vector<std::pair<std::int32_t, double>> own;
      for (const FlowUse& use : uses_of(f)) own.emplace_back(class_of_resource[use.resource.index()], use.share);
      std::sort(own.begin(), own.end());
      const auto [entry, is_new] = number.try_emplace(flow_colour_[f], static_cast<std::int32_t>(result.bytes.size()));
      if (is_new) {
        result.bytes.push_back(flows_[f].bytes);
        pattern.push_back(own);
      }
      const auto c = static_cast<std::size_t>(entry->second);
      if (result.bytes[c] != flows_[f].bytes || pattern[c] != own) return std::nullopt;
      result.class_of_flow.push_back(entry->second);
      for (const FlowUse& use : uses_of(f)) loads[use.resource.index()].emplace_back(entry->second, use.share);
    }
    result.uses.resize(result.bytes.size());
    for (Loads& l : loads) sum_by_class(l);
    for (std::size_t l = 0; l < loads.size(); ++l) {
      const auto c = static_cast<std::size_t>(class_of_resource[l]);
      if (network_.capacity[l] != result.capacity[c] || !are_equal(loads[l], loads[example[c]])) return std::nullopt;
      if (l != example[c]) continue;
      for (const auto& [flow_class, load] : loads[l]) {
        result.uses[static_cast<std::size_t>(flow_class)].push_back({class_of_resource[l], load});
      }
    }
    return result;
  }

  static void sum_by_class(Loads& loads) {
    std::sort(loads.begin(), loads.end());
    Loads sums;
    for (const auto& [c, load] : loads) {
      if (sums.empty() || sums.back().first != c) {
        sums.emplace_back(c, load);
      } else {
        sums.back().second += load;
      }
    }
    loads = std::move(sums);
  }

  static bool are_equal(const Loads& a, const Loads& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.first == y.first && std::abs(x.second - y.second) <= kRounding * x.second;
    });
  }

  std::span<const TrafficFlow> flows_;
  const TrafficNetwork& network_;
  std::vector<std::uint64_t> resource_colour_;
  std::vector<std::uint64_t> flow_colour_;
  Incidence ways_;
  std::size_t number_of_uses_ = 0;
};

std::optional<DecoupledTraffic> decoupled(const TrafficMatrix& matrix, const TrafficNetwork& network, bool by_last) {
  const std::vector<double>& capacity = network.capacity;
  DecoupledTraffic result{std::vector<double>(capacity.size()), std::vector<std::int64_t>(capacity.size()), by_last};
  std::vector<double> bytes(capacity.size());
  std::vector<double> load(capacity.size());
  std::vector<FlowUse> uses;
  for (const TrafficFlow& f : matrix.flows) {
    if (!is_sent(f)) continue;
    uses.clear();
    network.route(f.src, f.dst, uses);
    if (uses.empty()) continue;
    const ResourceId holder = uses[holding_use(uses, capacity, by_last)].resource;
    const std::size_t l = holder.index();
    if (result.flows[l]++ == 0) bytes[l] = f.bytes;
    if (bytes[l] != f.bytes) return std::nullopt;
    for (const FlowUse& use : uses) load[l] += use.resource == holder ? use.share : 0;
  }
  std::vector<double> rate(capacity.size());
  std::vector<double> carried(capacity.size());
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    if (result.flows[l] == 0) continue;
    rate[l] = capacity[l] / load[l];
    result.finish_s[l] = rate[l] == kInfinity ? 0 : bytes[l] / rate[l];
    carried[l] = capacity[l];
  }
  for (const TrafficFlow& f : matrix.flows) {
    if (!is_sent(f)) continue;
    uses.clear();
    network.route(f.src, f.dst, uses);
    if (uses.empty()) continue;
    const ResourceId holder = uses[holding_use(uses, capacity, by_last)].resource;
    for (const FlowUse& use : uses) {
      if (use.resource != holder) carried[use.resource.index()] += use.share * rate[holder.index()];
    }
  }
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    if (carried[l] > capacity[l] * (1 + kRounding)) return std::nullopt;
  }
  return result;
}

}  // namespace

std::size_t holding_use(const std::vector<FlowUse>& uses, const std::vector<double>& capacity, bool by_last) {
  const std::size_t half = uses.size() / 2;
  const auto room = [&](std::size_t u) { return capacity[uses[u].resource.index()] / uses[u].share; };
  std::size_t best = by_last ? uses.size() - 1 : 0;
  if (by_last) {
    for (std::size_t u = best; u-- > half;) best = room(u) < room(best) ? u : best;
  } else {
    for (std::size_t u = 1; u < half; ++u) best = room(u) < room(best) ? u : best;
  }
  return best;
}

std::optional<TrafficClasses> traffic_classes(const TrafficMatrix& matrix, const TrafficNetwork& network) {
  return Refinement(matrix, network).classes();
}

std::optional<DecoupledTraffic> decoupled_traffic(const TrafficMatrix& matrix, const TrafficNetwork& network) {
  for (const bool by_last : {true, false}) {
    if (auto result = decoupled(matrix, network, by_last)) return result;
  }
  return std::nullopt;
}

}  // namespace moeplan::sim
