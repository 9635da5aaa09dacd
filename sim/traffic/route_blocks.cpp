#include "sim/traffic/route_blocks.hpp"

#include <algorithm>
#include <limits>

#include "model/base/to_index.hpp"
#include "sim/traffic/block_routes.hpp"
#include "sim/traffic/networks.hpp"

namespace moeplan::sim {

namespace {

using Index = RouteBlocks::Index;

constexpr std::size_t kMostTerminalPairs = std::size_t{1} << 24;

/// The block tree of the fabric, and the routes inside its blocks.
class Factoring {
 public:
  explicit Factoring(const Cluster& cluster)
      : topology_(cluster.topology), networks_(cluster), ranks_(cluster.world_size()) {}

  RouteBlocks run() {
    out_.near = networks_.near_flows();
    find_blocks();
    orient(root());
    find_routes();
    return std::move(out_);
  }

 private:
  /// Finds the biconnected components by Hopcroft and Tarjan's depth-first search, without recursion. The last vertex
  /// of a block is the one through which the search entered it.
  void find_blocks() {
    const std::size_t n = topology_.vertices.size();
    std::vector<std::size_t> first(n + 2, 0);
    for (const Link& l : topology_.links) {
      if (!networks_.in_fabric(l)) continue;
      ++first[l.from.index() + 2];
      ++first[l.to.index() + 2];
    }
    for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
    std::vector<Index> next_to(first.back());
    for (const Link& l : topology_.links) {
      if (!networks_.in_fabric(l)) continue;
      next_to[first[l.from.index() + 1]++] = l.to.value();
      next_to[first[l.to.index() + 1]++] = l.from.value();
    }
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    std::vector<Index> found(n, -1), low(n, 0), parent(n, -1), path{networks_.fabric()}, open{networks_.fabric()};
    Index time = 0;
    found[to_index(networks_.fabric())] = low[to_index(networks_.fabric())] = time++;
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
    const auto all = ranks_;
    std::vector<std::int64_t> behind(n, 0), largest(n, 0);
    for (std::size_t v = 0; v < n; ++v) behind[v] = networks_.is_rank(VertexId(v)) ? 1 : 0;
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
    Root vertex{false, networks_.fabric()};
    for (std::size_t v = 0; v < n; ++v) {
      if (!networks_.is_fabric_switch(VertexId(v))) continue;
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
    for (std::size_t v = 0; v < n; ++v) out_.ranks[v] = networks_.is_rank(VertexId(v)) ? 1 : 0;
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
    if (!networks_.in_fabric(l)) return -1;
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

  const Topology& topology_;
  Networks networks_;
  std::int64_t ranks_;
  RouteBlocks out_;
  std::vector<std::size_t> first_in_{0};  // by block in the order found: index into in_block_
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
