#include "sim/traffic/route_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "model/base/to_index.hpp"
#include "sim/traffic/block_routes.hpp"

namespace moeplan::sim {

namespace {

using Index = RouteBlocks::Index;

constexpr std::size_t kMostNear = std::size_t{1} << 23;
constexpr std::size_t kMostTerminalPairs = std::size_t{1} << 24;

Index root_of(std::vector<Index>& parent, Index v) {
  while (parent[to_index(v)] != v) {
    parent[to_index(v)] = parent[to_index(parent[to_index(v)])];
    v = parent[to_index(v)];
  }
  return v;
}

class Factoring {
 public:
  explicit Factoring(const Cluster& cluster) : cluster_(cluster), topology_(cluster.topology) {}

  RouteBlocks run() {
    find_networks();
    list_near_pairs();
    find_blocks();
    orient(root());
    find_routes();
    return std::move(out_);
  }

 private:
  bool is_gpu(VertexId v) const { return topology_.vertices[v.index()].kind == VertexKind::Gpu; }

  /// Finds the networks, i.e. the connected sets of forwarding vertices; the fabric is the largest network to which
  /// every rank is linked.
  void find_networks() {
    std::vector<Index> parent(topology_.vertices.size());
    std::iota(parent.begin(), parent.end(), 0);
    for (const Link& l : topology_.links) {
      if (!is_gpu(l.from) && !is_gpu(l.to)) {
        parent[to_index(root_of(parent, l.from.value()))] = root_of(parent, l.to.value());
      }
    }
    network_.assign(parent.size(), -1);
    std::vector<std::int64_t> vertices(parent.size(), 0);
    for (std::size_t v = 0; v < parent.size(); ++v) {
      if (is_gpu(VertexId(v))) continue;
      network_[v] = root_of(parent, static_cast<Index>(v));
      ++vertices[to_index(network_[v])];
    }
    rank_of_.assign(parent.size(), -1);
    for (std::size_t r = 0; r < cluster_.gpu_of_rank.size(); ++r) {
      rank_of_[cluster_.gpu_of_rank[r].index()] = static_cast<Index>(r);
    }
    for (const Link& l : topology_.links) {
      if (is_gpu(l.from) == is_gpu(l.to)) continue;
      const Index gpu = is_gpu(l.from) ? l.from.value() : l.to.value();
      const Index other = is_gpu(l.from) ? l.to.value() : l.from.value();
      if (rank_of_[to_index(gpu)] >= 0) members_.emplace_back(network_[to_index(other)], rank_of_[to_index(gpu)]);
    }
    std::sort(members_.begin(), members_.end());
    members_.erase(std::unique(members_.begin(), members_.end()), members_.end());
    for (std::size_t i = 0; i < members_.size();) {
      std::size_t end = i;
      while (end < members_.size() && members_[end].first == members_[i].first) ++end;
      const Index network = members_[i].first;
      const bool has_all = end - i == cluster_.gpu_of_rank.size();
      if (has_all && (fabric_ < 0 || vertices[to_index(network)] > vertices[to_index(fabric_)])) fabric_ = network;
      i = end;
    }
    if (fabric_ < 0) throw NotFactored{"no network of switches joins all GPUs"};
  }

  /// The network of a link; -1 for a direct link between two GPUs.
  Index network_of(LinkId link) const {
    const Link& l = topology_.links[link.index()];
    return std::max(network_[l.from.index()], network_[l.to.index()]);
  }

  void list_near_pairs() {
    std::vector<std::pair<Index, Index>> pairs;
    for (std::size_t i = 0; i < members_.size();) {
      std::size_t end = i;
      while (end < members_.size() && members_[end].first == members_[i].first) ++end;
      if (members_[i].first != fabric_) {
        if (pairs.size() + (end - i) * (end - i) > kMostNear) too_many_near();
        for (std::size_t a = i; a < end; ++a) {
          for (std::size_t b = i; b < end; ++b) {
            if (a != b) pairs.emplace_back(members_[a].second, members_[b].second);
          }
        }
      }
      i = end;
    }
    for (const Link& l : topology_.links) {
      const Index src = rank_of_[l.from.index()], dst = rank_of_[l.to.index()];
      if (src >= 0 && dst >= 0) pairs.emplace_back(src, dst);
    }
    if (pairs.size() > kMostNear) too_many_near();
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    for (const auto& [src, dst] : pairs) add_near(src, dst);
    std::sort(out_.near.begin(), out_.near.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.network, a.src, a.dst) < std::tuple(b.network, b.src, b.dst);
    });
  }

  [[noreturn]] static void too_many_near() {
    throw NotFactored{fmt::format("more than {} pairs of GPUs are joined by more than one network", kMostNear)};
  }

  void add_near(Index src, Index dst) {
    const Route route =
        cluster_.routes.between(cluster_.gpu_of_rank[to_index(src)], cluster_.gpu_of_rank[to_index(dst)]);
    const auto in_fabric = [&](const RouteLink& l) { return network_of(l.link) == fabric_; };
    const auto fabric_links = std::count_if(route.links.begin(), route.links.end(), in_fabric);
    if (fabric_links == static_cast<std::ptrdiff_t>(route.links.size())) return;
    if (fabric_links > 0) throw NotFactored{"a route is split between two networks"};
    Index network = network_of(route.links.front().link);
    // Parallel direct links of a pair form a network of their own, numbered after all vertices.
    if (network < 0) network = static_cast<Index>(topology_.vertices.size()) + route.links.front().link.value();
    for (const RouteLink& l : route.links) {
      const Index other = network_of(l.link);
      if (other >= 0 && other != network) throw NotFactored{"a route is split between two networks"};
    }
    out_.near.push_back({RankId(src), RankId(dst), network, static_cast<std::uint32_t>(out_.near_uses.size()),
                         static_cast<std::uint32_t>(route.links.size())});
    for (const RouteLink& l : route.links) out_.near_uses.push_back({ResourceId(l.link.value()), l.share});
  }

  bool in_fabric(VertexId v) const { return is_gpu(v) ? rank_of_[v.index()] >= 0 : network_[v.index()] == fabric_; }
  bool in_fabric(const Link& l) const {
    return in_fabric(l.from) && in_fabric(l.to) && !(is_gpu(l.from) && is_gpu(l.to));
  }

  /// Finds the biconnected components by Hopcroft and Tarjan's depth-first search, without recursion. The last vertex
  /// of a block is the one through which the search entered it.
  void find_blocks() {
    const std::size_t n = topology_.vertices.size();
    std::vector<std::size_t> first(n + 2, 0);
    for (const Link& l : topology_.links) {
      if (!in_fabric(l)) continue;
      ++first[l.from.index() + 2];
      ++first[l.to.index() + 2];
    }
    for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
    std::vector<Index> next_to(first.back());
    for (const Link& l : topology_.links) {
      if (!in_fabric(l)) continue;
      next_to[first[l.from.index() + 1]++] = l.to.value();
      next_to[first[l.to.index() + 1]++] = l.from.value();
    }
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    std::vector<Index> found(n, -1), low(n, 0), parent(n, -1), path{fabric_}, open{fabric_};
    Index time = 0;
    found[to_index(fabric_)] = low[to_index(fabric_)] = time++;
    while (!path.empty()) {
      const Index v = path.back();
      if (next[to_index(v)] < first[to_index(v) + 1]) {
        const Index w = next_to[next[to_index(v)]++];
        if (w == parent[to_index(v)]) continue;
        if (found[to_index(w)] >= 0) {
          low[to_index(v)] = std::min(low[to_index(v)], found[to_index(w)]);
          continue;
        }
        parent[to_index(w)] = v;
        found[to_index(w)] = low[to_index(w)] = time++;
        path.push_back(w);
        open.push_back(w);
        continue;
      }
      path.pop_back();
      const Index p = parent[to_index(v)];
      if (p < 0) continue;
      low[to_index(p)] = std::min(low[to_index(p)], low[to_index(v)]);
      if (low[to_index(v)] < found[to_index(p)]) continue;
      Index w = -1;
      do {
        w = open.back();
        open.pop_back();
        in_block_.push_back(w);
      } while (w != v);
      in_block_.push_back(p);
      first_in_.push_back(in_block_.size());
    }
  }

  std::span<const Index> vertices_of(std::size_t block) const {
    return std::span(in_block_).subspan(first_in_[block], first_in_[block + 1] - first_in_[block]);
  }

  struct Root {
    bool is_block;
    Index index;
  };

  /// The vertex or block whose largest subtree has the fewest ranks; a vertex if they tie.
  Root root() const {
    const std::size_t n = topology_.vertices.size();
    const auto all = static_cast<std::int64_t>(cluster_.gpu_of_rank.size());
    std::vector<std::int64_t> behind(n, 0), largest(n, 0);
    for (std::size_t v = 0; v < n; ++v) behind[v] = rank_of_[v] >= 0 ? 1 : 0;
    std::int64_t best_block = std::numeric_limits<std::int64_t>::max();
    Root block{true, 0};
    for (std::size_t b = 0; b + 1 < first_in_.size(); ++b) {
      const auto vertices = vertices_of(b);
      std::int64_t sum = 0, most = 0;
      for (const Index v : vertices.first(vertices.size() - 1)) {
        sum += behind[to_index(v)];
        most = std::max(most, behind[to_index(v)]);
      }
      most = std::max(most, all - sum);
      if (most < best_block) {
        best_block = most;
        block.index = static_cast<Index>(b);
      }
      const Index top = vertices.back();
      behind[to_index(top)] += sum;
      largest[to_index(top)] = std::max(largest[to_index(top)], sum);
    }
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    Root vertex{false, fabric_};
    for (std::size_t v = 0; v < n; ++v) {
      if (network_[v] != fabric_) continue;
      const std::int64_t most = std::max(largest[v], all - behind[v]);
      if (most >= best) continue;
      best = most;
      vertex.index = static_cast<Index>(v);
    }
    return best <= best_block ? vertex : block;
  }

  void orient(Root root) {
    const std::size_t n = topology_.vertices.size(), count = first_in_.size() - 1;
    std::vector<std::size_t> first(n + 2, 0);
    for (const Index v : in_block_) ++first[to_index(v) + 2];
    for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
    std::vector<Index> blocks_at(in_block_.size());
    for (std::size_t b = 0; b < count; ++b) {
      for (const Index v : vertices_of(b)) blocks_at[first[to_index(v) + 1]++] = static_cast<Index>(b);
    }
    std::vector<Index> top(count, -1), above(n, -1);
    const auto hang_blocks_on = [&](Index v) {
      for (std::size_t i = first[to_index(v)]; i < first[to_index(v) + 1]; ++i) {
        if (blocks_at[i] == above[to_index(v)]) continue;
        top[to_index(blocks_at[i])] = v;
        order_.push_back(blocks_at[i]);
      }
    };
    if (root.is_block) {
      order_.push_back(root.index);
    } else {
      hang_blocks_on(root.index);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Index b = order_[i];
      for (const Index v : vertices_of(to_index(b))) {
        if (v == top[to_index(b)]) continue;
        above[to_index(v)] = b;
        hang_blocks_on(v);
      }
    }
    out_.ranks.assign(n, 0);
    for (std::size_t v = 0; v < n; ++v) out_.ranks[v] = rank_of_[v] >= 0 ? 1 : 0;
    std::vector<std::int64_t> in(count, 0);
    for (auto b = order_.rbegin(); b != order_.rend(); ++b) {
      for (const Index v : vertices_of(to_index(*b)))
        in[to_index(*b)] += v == top[to_index(*b)] ? 0 : out_.ranks[to_index(v)];
      if (top[to_index(*b)] >= 0) out_.ranks[to_index(top[to_index(*b)])] += in[to_index(*b)];
    }
    std::erase_if(order_, [&](Index b) { return in[to_index(b)] == 0; });
    out_.block_of.assign(n, -1);
    out_.place_of.assign(n, -1);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Index b = order_[i];
      RouteBlocks::Block block{top[to_index(b)], static_cast<std::uint32_t>(out_.terminals.size()), 0, 0,
                               in[to_index(b)]};
      if (block.top >= 0) out_.terminals.push_back(block.top);
      for (const Index v : vertices_of(to_index(b))) {
        if (v == block.top) continue;
        out_.block_of[to_index(v)] = static_cast<Index>(i);
        if (out_.ranks[to_index(v)] == 0) continue;
        out_.place_of[to_index(v)] = static_cast<Index>(out_.terminals.size() - block.first_terminal);
        out_.terminals.push_back(v);
      }
      block.terminals = static_cast<std::uint32_t>(out_.terminals.size()) - block.first_terminal;
      out_.blocks.push_back(block);
    }
  }

  /// The block that contains a link; -1 if none does.
  Index block_of(const Link& l) const {
    if (!in_fabric(l)) return -1;
    const Index a = out_.block_of[l.from.index()], b = out_.block_of[l.to.index()];
    if (a >= 0 && out_.blocks[to_index(a)].top == l.to.value()) return a;
    if (b >= 0 && out_.blocks[to_index(b)].top == l.from.value()) return b;
    return a == b ? a : -1;
  }

  void find_routes() {
    std::vector<std::size_t> first(out_.blocks.size() + 2, 0);
    std::vector<Index> block(topology_.links.size());
    for (std::size_t l = 0; l < block.size(); ++l) {
      block[l] = block_of(topology_.links[l]);
      if (block[l] >= 0) ++first[to_index(block[l]) + 2];
    }
    for (std::size_t b = 2; b < first.size(); ++b) first[b] += first[b - 1];
    std::vector<LinkId> links(first.back());
    for (std::size_t l = 0; l < block.size(); ++l) {
      if (block[l] >= 0) links[first[to_index(block[l]) + 1]++] = LinkId(l);
    }
    BlockRoutes search(topology_);
    std::size_t pairs = 0;
    for (std::size_t b = 0; b < out_.blocks.size(); ++b) {
      pairs += std::size_t{out_.blocks[b].terminals} * out_.blocks[b].terminals;
      if (pairs > kMostTerminalPairs) BlockRoutes::refuse(out_.blocks[b].terminals);
      out_.blocks[b].first_route = static_cast<std::uint32_t>(out_.route_begin.size());
      search.begin(vertices_of(to_index(order_[b])), std::span(links).subspan(first[b], first[b + 1] - first[b]));
      const auto terminals = out_.terminals_of(out_.blocks[b]);
      for (const Index t : terminals) {
        search.find_from(t, terminals);
        for (const Index u : terminals) {
          out_.route_begin.push_back(static_cast<std::uint32_t>(out_.route_uses.size()));
          if (t != u) search.append_route_to(u, out_.route_uses);
        }
      }
    }
    out_.route_begin.push_back(static_cast<std::uint32_t>(out_.route_uses.size()));
  }

  const Cluster& cluster_;
  const Topology& topology_;
  RouteBlocks out_;
  std::vector<Index> network_;                    // by vertex: -1 for GPUs
  std::vector<Index> rank_of_;                    // by vertex: -1 if it is no rank
  std::vector<std::pair<Index, Index>> members_;  // network, rank
  Index fabric_ = -1;                             // a network, identified by one of its vertices
  std::vector<std::size_t> first_in_{0};          // by block in the order found: index into in_block_
  std::vector<Index> in_block_;
  std::vector<Index> order_;  // blocks from the root on
};

}  // namespace

std::variant<RouteBlocks, std::string> route_blocks(const Cluster& cluster) {
  try {
    return Factoring(cluster).run();
  } catch (const NotFactored& n) {
    return n.reason;
  }
}

}  // namespace moeplan::sim
