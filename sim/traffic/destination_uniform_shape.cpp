#include "sim/traffic/destination_uniform_shape.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "model/base/to_index.hpp"

namespace moeplan::sim {

namespace {

constexpr std::size_t kMostNearSteps = std::size_t{1} << 27;

}  // namespace

DestinationUniformShape::DestinationUniformShape(const Cluster& c, RouteBlocks&& f)
    : cluster(c), factors(std::move(f)) {
  for (const Link& l : c.topology.links) capacity.push_back(l.bandwidth.value());
  number_crossings();
  choose_kept();
  join_near();
  merge_crossings();
  list_subtrees();
}

void DestinationUniformShape::number_crossings() {
  std::size_t next = factors.blocks.size();
  for (const Block& b : factors.blocks) {
    first_crossing.push_back(next);
    if (has_crossings(b)) next += std::size_t{b.terminals} * b.terminals;
  }
  sums = next;
  stands_for.assign(sums, -1);
  members.assign(sums, 1);
  for (std::size_t b = 0; b < factors.blocks.size(); ++b) {
    const std::size_t k = factors.blocks[b].terminals;
    if (!has_crossings(factors.blocks[b])) continue;
    for (std::size_t i = 0; i < k * k; ++i) stands_for[first_crossing[b] + i] = static_cast<Index>(i / k);
  }
}

/// Keeps the links that no ascending route crosses; in the root block, those that lead to one terminal only.
void DestinationUniformShape::choose_kept() {
  kept.assign(capacity.size(), 1);
  std::vector<Index> leads_to(capacity.size(), -1);
  for (const Block& b : factors.blocks) {
    for (std::size_t t = 0; t < b.terminals; ++t) {
      for (std::size_t u = 0; u < b.terminals; ++u) {
        for (const FlowUse& use : factors.route(b, t, u)) {
          const std::size_t l = use.resource.index();
          if (b.top >= 0) {
            if (u == 0) kept[l] = 0;
            continue;
          }
          if (leads_to[l] >= 0 && leads_to[l] != static_cast<Index>(u)) kept[l] = 0;
          leads_to[l] = static_cast<Index>(u);
        }
      }
    }
  }
}

void DestinationUniformShape::join_near() {
  depth_.assign(cluster.topology.vertices.size(), 0);
  for (const Block& b : factors.blocks) {
    for (const Index v : factors.terminals_of(b)) {
      if (v != b.top) depth_[to_index(v)] = b.top < 0 ? 1 : depth_[to_index(b.top)] + 1;
    }
  }
  first_near.assign(cluster.gpu_of_rank.size() + 1, 0);
  for (const auto& f : factors.near.flows) ++first_near[f.dst.index() + 1];
  for (std::size_t r = 1; r < first_near.size(); ++r) first_near[r] += first_near[r - 1];
  near.resize(factors.near.flows.size(), {});
  std::vector<std::size_t> next(first_near.begin(), first_near.end() - 1);
  for (const auto& f : factors.near.flows) near[next[f.dst.index()]++] = join(f.src, f.dst);
}

DestinationUniformShape::NearJoin DestinationUniformShape::join(RankId src, RankId dst) {
  NearJoin n{src, dst, -1, static_cast<std::uint32_t>(steps.size()), 0};
  Index s = gpu(src).value(), d = gpu(dst).value(), down = -1;
  while (s != d) {
    const Index bs = factors.block_of[to_index(s)], bd = factors.block_of[to_index(d)];
    // In one block, both below its top: they meet here. A block's top lies higher than its other terminals.
    if (bs == bd) {
      steps.push_back(s);
      n.sum = crossing(to_index(bs), to_index(factors.place_of[to_index(s)]), to_index(factors.place_of[to_index(d)]));
      break;
    }
    const Index depth_s = depth_[to_index(s)], depth_d = depth_[to_index(d)];
    if (depth_s >= depth_d) {
      steps.push_back(s);
      s = factors.blocks[to_index(bs)].top;
    }
    if (depth_d >= depth_s) {
      down = bd;
      d = factors.blocks[to_index(bd)].top;
    }
  }
  if (n.sum < 0) n.sum = down;
  if (steps.size() > kMostNearSteps) throw TooManyColumns{"paths up its tree are too long"};
  n.steps = static_cast<std::uint32_t>(steps.size()) - n.first_step;
  return n;
}

/// Merges the crossings to one terminal that are equivalent and use separate links: one represents the others.
void DestinationUniformShape::merge_crossings() {
  std::vector<char> is_touched(sums, 0);
  for (const NearJoin& n : near) is_touched[to_index(n.sum)] = 1;
  std::vector<Index> users(capacity.size(), 0);
  using Signature = std::pair<std::int64_t, std::vector<std::pair<double, double>>>;
  for (std::size_t b = 0; b < factors.blocks.size(); ++b) {
    const Block& block = factors.blocks[b];
    if (block.terminals < 4) continue;
    const auto terminals = factors.terminals_of(block);
    const auto each_use = [&](auto&& call) {
      for (std::size_t i = 0; i < block.terminals; ++i) {
        for (std::size_t j = 0; j < block.terminals; ++j) {
          for (const FlowUse& use : factors.route(block, i, j)) call(use);
        }
      }
    };
    each_use([&](const FlowUse& use) { ++users[use.resource.index()]; });
    const std::size_t child = block.top >= 0 ? 1 : 0;
    for (std::size_t u = child; u < block.terminals; ++u) {
      std::map<Signature, std::size_t> by_signature;
      for (std::size_t t = child; t < block.terminals; ++t) {
        const auto pair = to_index(crossing(b, t, u));
        if (t == u || is_touched[pair]) continue;
        Signature s{factors.ranks[to_index(terminals[t])], {}};
        bool is_own = true;
        for (const FlowUse& use : factors.route(block, t, u)) {
          if (!kept[use.resource.index()]) continue;
          is_own = is_own && users[use.resource.index()] == 1;
          s.second.emplace_back(capacity[use.resource.index()], use.share);
        }
        if (!is_own) continue;
        const auto [it, is_new] = by_signature.try_emplace(std::move(s), t);
        if (is_new) continue;
        stands_for[pair] = static_cast<Index>(it->second);
        ++members[to_index(crossing(b, it->second, u))];
      }
    }
    each_use([&](const FlowUse& use) { users[use.resource.index()] = 0; });
  }
}

void DestinationUniformShape::list_subtrees() {
  std::vector<Index> subtree(cluster.topology.vertices.size(), -1);
  std::vector<Index> of_block(factors.blocks.size(), -1);
  Index count = 0;
  for (std::size_t b = 0; b < factors.blocks.size(); ++b) {
    const Block& block = factors.blocks[b];
    if (block.top >= 0) of_block[b] = subtree[to_index(block.top)] >= 0 ? subtree[to_index(block.top)] : count++;
    for (const Index v : factors.terminals_of(block)) {
      if (v != block.top) subtree[to_index(v)] = block.top >= 0 ? of_block[b] : count++;
    }
  }
  subtrees.resize(to_index(count));
  for (std::size_t r = 0; r < cluster.gpu_of_rank.size(); ++r) {
    subtrees[to_index(subtree[gpu(RankId(r)).index()])].push_back(RankId(r));
  }
}

}  // namespace moeplan::sim
