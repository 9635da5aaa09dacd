// DeepSeek's linear-programming load balancer [LPLB] (github.com/deepseek-ai/LPLB).
//
// EPLB without replicas assigns experts to ranks, where they are sorted by load. Ranks form groups with a fixed replica
// topology r2o: the d-th redundant slot of rank i of a group holds a copy of an expert of rank r2o[i][d], namely the
// one with the same index among that rank's heaviest experts; slots beyond the topology's form further rounds, and one
// weight applies to all rounds of an edge. For given loads the linear programme is
//
//     minimise t    with, for every rank i:  fixed_i + sum_d r_id w_id
//                                                     + sum over (k, d) with r2o[k][d] = i of o_kd w_kd <= t
//                   and, for every edge:     o + r = 1, both at least 0,
//
// where edge (i, d) belongs to slot d of rank i, w is the load of its experts, o the fraction of w that stays with the
// originals and r the fraction that goes to the copies. The released code runs five steps of an interior-point method
// on a GPU; this implementation solves it exactly, in whole tokens (balanced_parts.hpp). As there (by a hash), the
// assignment of tokens to replicas does not depend on their source.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/placement/balanced_parts.hpp"
#include "planner/placement/shadow.hpp"
#include "planner/placement/strategies/eplb.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

/// r2o[rank within the group][redundant slot].
struct ReplicaTopology {
  std::int64_t group_size;
  std::vector<std::vector<std::int64_t>> r2o;
};

/// CUBE_8P2E of the released tests: the edges of a cube's two opposite faces, and diagonals between them.
ReplicaTopology cube() {
  constexpr std::array<std::array<std::int64_t, 8>, 2> kSlots{{{3, 0, 1, 2, 7, 4, 5, 6}, {6, 7, 4, 5, 0, 1, 2, 3}}};
  ReplicaTopology topology{8, {}};
  for (std::size_t i = 0; i < 8; ++i) topology.r2o.push_back({kSlots[0][i], kSlots[1][i]});
  return topology;
}

/// RING_8P, generalised to any number of ranks.
ReplicaTopology ring(std::int64_t ranks) {
  ReplicaTopology topology{ranks, {}};
  for (std::int64_t i = 0; i < ranks; ++i) topology.r2o.push_back({(i + 1) % ranks});
  return topology;
}

class Lplb final : public PlacementStrategy {
 public:
  explicit Lplb(LplbTopology topology) : topology_(topology) {}
  std::string_view name() const override { return topology_ == LplbTopology::Cube ? "lplb_cube" : "lplb_ring"; }
  std::string_view summary() const override {
    return topology_ == LplbTopology::Cube
               ? "linear programme over replicas on cubes of 8 ranks, two slots each [LPLB]"
               : "linear programme over replicas on rings of 8 ranks (else of all), a slot each [LPLB]";
  }
  bool replans() const override { return true; }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override;

 private:
  LplbTopology topology_;
};

/// An edge of a group: the experts of rank `original` that have a copy on rank `copy`.
struct Edge {
  std::int64_t original, copy;  // ranks
  std::vector<std::size_t> experts;
};

/// Determines for every edge of a group of ranks the fraction that stays with the original.
void divide_group(Placement& placement, const std::vector<Edge>& edges, std::int64_t first_rank,
                  std::vector<std::int64_t> fixed, const std::vector<std::int64_t>& loads) {
  std::vector<DivisibleLoad> divisible;
  for (const Edge& edge : edges) {
    DivisibleLoad one{
        0, {static_cast<std::int32_t>(edge.original - first_rank), static_cast<std::int32_t>(edge.copy - first_rank)}};
    for (const std::size_t e : edge.experts) one.amount += loads[e];
    fixed[static_cast<std::size_t>(edge.original - first_rank)] -= one.amount;
    divisible.push_back(std::move(one));
  }
  const BalancedParts balanced = balanced_parts(fixed, divisible);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const std::int64_t stays = balanced.parts[i][0], goes = balanced.parts[i][1];
    for (const std::size_t e : edges[i].experts) {
      ExpertPlacement& place = placement.experts[e];
      place.holders.front().share = stays + goes > 0 ? stays : 1;
      add_holder(place, RankId(static_cast<std::int32_t>(edges[i].copy)), goes);
    }
  }
}

PlacementAnswer Lplb::answer(const PlacementProblem& problem) const {
  const PlacementDevices& d = problem.devices;
  const bool in_eights = d.ranks % 8 == 0;
  if (topology_ == LplbTopology::Cube && !in_eights)
    return {std::nullopt,
            Infeasibility(Constraint::Multiple, d.ranks, 8, fmt::format("{} ranks are no cubes of 8", d.ranks))};
  if (d.ranks < 2) return {std::nullopt, Infeasibility(Constraint::Limit, d.ranks, 2, "a single rank is no ring")};
  if (problem.experts() % d.ranks != 0) {
    return {std::nullopt,
            Infeasibility(Constraint::Multiple, problem.experts(), d.ranks,
                          fmt::format("{} experts do not divide among {} ranks", problem.experts(), d.ranks))};
  }
  const ReplicaTopology topology = topology_ == LplbTopology::Cube ? cube() : ring(in_eights ? 8 : d.ranks);
  const std::int64_t local = problem.experts() / d.ranks;
  const auto redundant = static_cast<std::int64_t>(topology.r2o.front().size());
  const std::int64_t rounds = std::min(d.slots - local, local) / redundant;
  if (rounds < 1) {
    return {std::nullopt, Infeasibility(Constraint::Limit, std::min(d.slots - local, local), redundant,
                                        fmt::format("{} slots a rank and {} experts leave no {} to replicate", d.slots,
                                                    local, redundant))};
  }
  const std::vector<std::int64_t> loads = problem.counts.expert_load();
  const std::int64_t groups = d.ranks / topology.group_size;
  const bool whole_nodes = d.ranks % d.ranks_per_node == 0;
  const EplbLayer layer = eplb_rebalance(loads, problem.experts(), groups, whole_nodes ? d.nodes() : 1, d.ranks);

  Placement placement{Nearest::Off, std::vector<ExpertPlacement>(loads.size())};
  std::vector<std::vector<std::size_t>> held(static_cast<std::size_t>(d.ranks));
  for (std::int64_t r = 0; r < d.ranks; ++r) {
    auto& own = held[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < local; ++i) {
      const auto e = static_cast<std::size_t>(layer.phy2log[static_cast<std::size_t>(r * local + i)]);
      const RankId rank(static_cast<std::int32_t>(r));
      placement.experts[e] = {rank, {{rank, 1, 1}}};
      own.push_back(e);
    }
    std::stable_sort(own.begin(), own.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t first = g * topology.group_size;
    std::vector<Edge> edges;
    std::vector<std::int64_t> fixed;
    for (std::int64_t i = 0; i < topology.group_size; ++i) {
      std::int64_t load = 0;
      for (const std::size_t e : held[static_cast<std::size_t>(first + i)]) load += loads[e];
      fixed.push_back(load);
      for (std::int64_t s = 0; s < redundant; ++s) {
        Edge edge{first + topology.r2o[static_cast<std::size_t>(i)][static_cast<std::size_t>(s)], first + i, {}};
        for (std::int64_t round = 0; round < rounds; ++round) {
          edge.experts.push_back(
              held[static_cast<std::size_t>(edge.original)][static_cast<std::size_t>(round * redundant + s)]);
        }
        edges.push_back(std::move(edge));
      }
    }
    divide_group(placement, edges, first, std::move(fixed), loads);
  }
  return {std::move(placement)};
}

}  // namespace

std::unique_ptr<PlacementStrategy> make_lplb_placement(LplbTopology topology) {
  return std::make_unique<Lplb>(topology);
}

}  // namespace moeplan::planner
