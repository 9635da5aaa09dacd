// Implementation of the algorithms of eplb.hpp.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "model/base/to_index.hpp"
#include "planner/placement/strategies/eplb.hpp"

namespace moeplan::planner {

namespace {

using Numbers = std::vector<std::int64_t>;

/// By descending weight, ties in order.
std::vector<std::size_t> heaviest(std::span<const double> weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  return order;
}

struct Replicas {
  Numbers expert;  // by replica: each expert once, then the extra replicas
  Numbers index;
  Numbers count;  // by expert
};

/// Replicates experts, at most `most` replicas of each if given.
Replicas replicated(std::span<const std::int64_t> loads, std::int64_t replicas, std::optional<std::int64_t> most = {}) {
  Replicas r{Numbers(loads.size()), Numbers(loads.size(), 0), Numbers(loads.size(), 1)};
  std::iota(r.expert.begin(), r.expert.end(), std::int64_t{0});
  while (static_cast<std::int64_t>(r.expert.size()) < replicas) {
    std::optional<std::size_t> best;
    double heaviest_part = 0;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      const double part = static_cast<double>(loads[e]) / static_cast<double>(r.count[e]);
      if ((most && r.count[e] >= *most) || (best && part <= heaviest_part)) continue;
      best = e;
      heaviest_part = part;
    }
    if (!best) break;
    r.expert.push_back(static_cast<std::int64_t>(*best));
    r.index.push_back(r.count[*best]++);
  }
  return r;
}

std::vector<double> replica_weights(std::span<const std::int64_t> loads, const Replicas& r) {
  std::vector<double> weights;
  for (const std::int64_t e : r.expert) {
    weights.push_back(static_cast<double>(loads[to_index(e)]) / static_cast<double>(r.count[to_index(e)]));
  }
  return weights;
}

}  // namespace

Packing balanced_packing(std::span<const double> weights, std::int64_t bins) {
  assert(bins > 0 && static_cast<std::int64_t>(weights.size()) % bins == 0 && "bins hold equally many");
  const std::int64_t each = static_cast<std::int64_t>(weights.size()) / bins;
  Packing packing{Numbers(weights.size(), 0), Numbers(weights.size(), 0)};
  if (each == 1) {
    std::iota(packing.bin.begin(), packing.bin.end(), std::int64_t{0});
    return packing;
  }
  std::vector<double> weight(to_index(bins), 0);
  Numbers filled(to_index(bins), 0);
  for (const std::size_t i : heaviest(weights)) {
    std::size_t best = weight.size();
    for (std::size_t b = 0; b < weight.size(); ++b) {
      if (filled[b] < each && (best == weight.size() || weight[b] < weight[best])) best = b;
    }
    packing.bin[i] = static_cast<std::int64_t>(best);
    packing.position[i] = filled[best]++;
    weight[best] += weights[i];
  }
  return packing;
}

EplbLayer eplb_rebalance(std::span<const std::int64_t> loads, std::int64_t replicas, std::int64_t groups,
                         std::int64_t nodes, std::int64_t gpus) {
  if (groups % nodes != 0) groups = nodes = 1;  // the global policy
  const auto experts = static_cast<std::int64_t>(loads.size());
  assert(experts % groups == 0 && gpus % nodes == 0 && replicas % gpus == 0 && replicas >= experts &&
         "equal shares of everything");
  const std::int64_t group_size = experts / groups, experts_a_node = experts / nodes;

  // Pack groups onto nodes. `order` lists the experts node by node.
  std::vector<double> group_loads;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto first = loads.begin() + g * group_size;
    group_loads.push_back(static_cast<double>(std::accumulate(first, first + group_size, std::int64_t{0})));
  }
  const Packing to_nodes = balanced_packing(group_loads, nodes);
  Numbers order(loads.size());
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::size_t g = to_index(e / group_size);
    const std::int64_t place = to_nodes.bin[g] * (groups / nodes) + to_nodes.position[g];
    order[to_index(place * group_size + e % group_size)] = e;
  }

  EplbLayer layer{{}, {}, Numbers(loads.size(), 0)};
  const std::int64_t gpus_a_node = gpus / nodes, slots = replicas / gpus;
  for (std::int64_t node = 0; node < nodes; ++node) {
    Numbers own;
    for (std::int64_t i = 0; i < experts_a_node; ++i)
      own.push_back(loads[to_index(order[to_index(node * experts_a_node + i)])]);
    const Replicas r = replicated(own, replicas / nodes);
    const Packing to_gpus = balanced_packing(replica_weights(own, r), gpus_a_node);
    Numbers phy2log(r.expert.size()), phy2index(r.expert.size());
    for (std::size_t i = 0; i < r.expert.size(); ++i) {
      const std::size_t place = to_index(to_gpus.bin[i] * slots + to_gpus.position[i]);
      phy2log[place] = order[to_index(node * experts_a_node + r.expert[i])];
      phy2index[place] = r.index[i];
    }
    layer.phy2log.insert(layer.phy2log.end(), phy2log.begin(), phy2log.end());
    layer.phy2index.insert(layer.phy2index.end(), phy2index.begin(), phy2index.end());
    for (std::int64_t i = 0; i < experts_a_node; ++i) {
      layer.logcnt[to_index(order[to_index(node * experts_a_node + i)])] = r.count[to_index(i)];
    }
  }
  return layer;
}

EplbTables eplb_tables(std::span<const EplbLayer> layers) {
  EplbTables tables;
  std::int64_t most = 0;
  for (const EplbLayer& layer : layers)
    most = std::max(most, *std::max_element(layer.logcnt.begin(), layer.logcnt.end()));
  for (const EplbLayer& layer : layers) {
    std::vector<Numbers> log2phy(layer.logcnt.size(), Numbers(to_index(most), -1));
    for (std::size_t p = 0; p < layer.phy2log.size(); ++p) {
      log2phy[to_index(layer.phy2log[p])][to_index(layer.phy2index[p])] = static_cast<std::int64_t>(p);
    }
    tables.phy2log.push_back(layer.phy2log);
    tables.log2phy.push_back(std::move(log2phy));
    tables.logcnt.push_back(layer.logcnt);
  }
  return tables;
}

std::vector<Numbers> distinct_rebalance(std::span<const std::int64_t> loads, std::int64_t replicas, std::int64_t gpus) {
  const Replicas r = replicated(loads, replicas, gpus);
  const std::vector<double> weights = replica_weights(loads, r);
  const auto slots = to_index(replicas / gpus);
  std::vector<Numbers> held(to_index(gpus));
  std::vector<double> weight(to_index(gpus), 0);
  const auto holds = [&](std::size_t g, std::int64_t e) {
    return std::find(held[g].begin(), held[g].end(), e) != held[g].end();
  };
  const auto weight_of = [&](std::int64_t e) {
    return static_cast<double>(loads[to_index(e)]) / static_cast<double>(r.count[to_index(e)]);
  };
  for (const std::size_t i : heaviest(weights)) {
    const std::int64_t e = r.expert[i];
    std::optional<std::size_t> best;
    for (std::size_t g = 0; g < held.size(); ++g) {
      if (held[g].size() < slots && !holds(g, e) && (!best || weight[g] < weight[*best])) best = g;
    }
    if (best) {
      held[*best].push_back(e);
      weight[*best] += weights[i];
      continue;
    }
    // Every GPU with room holds e already: a GPU that does not hold e passes a replica f to a GPU with room and takes
    // e. Among these moves, choose the one with the least resulting load.
    struct Change {
      std::size_t from, to, position;
      double heavier;
    };
    std::optional<Change> change;
    for (std::size_t to = 0; to < held.size(); ++to) {
      if (held[to].size() >= slots) continue;
      for (std::size_t from = 0; from < held.size(); ++from) {
        if (holds(from, e)) continue;
        for (std::size_t k = 0; k < held[from].size(); ++k) {
          const std::int64_t f = held[from][k];
          if (holds(to, f)) continue;
          const double heavier = std::max(weight[to] + weight_of(f), weight[from] - weight_of(f) + weights[i]);
          if (!change || heavier < change->heavier) change = Change{from, to, k, heavier};
        }
      }
    }
    if (!change) continue;  // no GPU needs this replica
    const std::int64_t f = held[change->from][change->position];
    held[change->to].push_back(f);
    weight[change->to] += weight_of(f);
    held[change->from][change->position] = e;
    weight[change->from] += weights[i] - weight_of(f);
  }
  return held;
}

}  // namespace moeplan::planner
