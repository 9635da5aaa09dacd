#include "model/program/tree_edges.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

constexpr int kTrees = 2;

std::int64_t lowest_bit(std::int64_t x) { return x & -x; }

std::int64_t parent_label(std::int64_t x, std::int64_t n) {
  const std::int64_t b = lowest_bit(x), above = (x - b) | 2 * b;
  return above < n ? above : x - b;
}

std::vector<std::int64_t> child_labels(std::int64_t x, std::int64_t n) {
  std::int64_t step = 1;
  if (x == 0) {
    if (n == 1) return {};
    while (2 * step < n) step *= 2;
    return {step};
  }
  step = lowest_bit(x) / 2;
  if (step == 0) return {};
  std::vector<std::int64_t> out{x - step};
  while (step > 0 && x + step >= n) step /= 2;
  if (step > 0) out.push_back(x + step);
  return out;
}

/// The members of a channel's chain inside a node.
struct Chain {
  std::int64_t node;
  std::int64_t first;  // first member of the chain
  std::int64_t per_node;
  [[nodiscard]] std::int64_t place(std::int64_t member) const { return (member - first + per_node) % per_node; }
  [[nodiscard]] std::int64_t position(std::int64_t place_in_chain) const {
    return node * per_node + (first + place_in_chain) % per_node;
  }
};

}  // namespace

std::int64_t DoubleTree::label(int which, std::int64_t node) const {
  if (which == 0) return node;
  if (!rooted_) return nodes_ % 2 == 0 ? nodes_ - 1 - node : (node + nodes_ - 1) % nodes_;
  if (node == 0) return 0;
  const std::int64_t others = nodes_ - 1;
  return others % 2 == 0 ? nodes_ - node : (node + others - 2) % others + 1;
}

std::int64_t DoubleTree::node(int which, std::int64_t label) const {
  if (which == 0) return label;
  if (!rooted_) return nodes_ % 2 == 0 ? nodes_ - 1 - label : (label + 1) % nodes_;
  if (label == 0) return 0;
  const std::int64_t others = nodes_ - 1;
  return others % 2 == 0 ? nodes_ - label : label % others + 1;
}

std::optional<std::int64_t> DoubleTree::parent(int which, std::int64_t n) const {
  const std::int64_t x = label(which, n);
  if (x == 0) return std::nullopt;
  return node(which, parent_label(x, nodes_));
}

std::vector<std::int64_t> DoubleTree::children(int which, std::int64_t n) const {
  std::vector<std::int64_t> out = child_labels(label(which, n), nodes_);
  for (std::int64_t& x : out) x = node(which, x);
  return out;
}

std::vector<TreeEdge> tree_edges(Collective collective, std::int64_t position, std::int64_t size, std::int64_t per_node,
                                 std::int64_t bytes) {
  assert((collective == Collective::AllReduce || collective == Collective::Broadcast) && "trees gather nothing");
  const bool rooted = collective == Collective::Broadcast;
  const std::int64_t node = position / per_node, member = position % per_node;
  const bool at_root = rooted && node == 0;
  const DoubleTree trees(size / per_node, rooted);
  std::map<std::pair<std::int64_t, int>, TreeEdge> edges;  // by peer and tree; members of a node are peers in both
  const auto exchange = [&](std::int64_t peer, int which, std::int64_t sends, std::int64_t receives) {
    TreeEdge& e = edges.try_emplace({peer, which}, TreeEdge{peer}).first->second;
    e.sends += sends;
    e.receives += receives;
  };
  const auto below = [&](std::int64_t peer, int which, std::int64_t n) { exchange(peer, which, n, rooted ? 0 : n); };
  const auto above = [&](std::int64_t peer, int which, std::int64_t n) { exchange(peer, which, rooted ? 0 : n, n); };
  for (std::int64_t channel = 0; channel < per_node; ++channel) {
    const std::int64_t whole = part(bytes, channel, per_node);
    const Chain chain{node, at_root ? 0 : channel, per_node};
    const std::int64_t place = chain.place(member);
    if (place > 0) above(chain.position(place - 1), 0, whole);
    if (place + 1 < per_node) below(chain.position(place + 1), 0, whole);
    if (member != channel) continue;
    for (int which = 0; which < kTrees; ++which) {
      const std::int64_t half = part(whole, which, kTrees);
      if (const auto p = trees.parent(which, node)) above(*p * per_node + channel, which, half);
      for (const std::int64_t c : trees.children(which, node)) below(c * per_node + channel, which, half);
    }
  }
  std::vector<TreeEdge> out;
  for (const auto& [key, e] : edges) {
    if (e.sends > 0 || e.receives > 0) out.push_back(e);
  }
  return out;
}

std::vector<std::int64_t> longest_tree_path(Collective collective, std::int64_t size, std::int64_t per_node) {
  const bool rooted = collective == Collective::Broadcast;
  const std::int64_t nodes = size / per_node;
  const std::int64_t channel = rooted ? per_node - 1 : 0;  // the last to leave a broadcast's root node
  const DoubleTree trees(nodes, rooted);
  std::vector<std::int64_t> heads;  // nodes, from the deepest upwards
  for (std::int64_t n = 0; n < nodes; ++n) {
    std::vector<std::int64_t> path{n};
    for (auto p = trees.parent(0, n); p; p = trees.parent(0, *p)) path.push_back(*p);
    if (path.size() > heads.size()) heads = std::move(path);
  }
  std::vector<std::int64_t> out;
  if (rooted && nodes > 1) {
    for (std::int64_t m = 0; m < channel; ++m) out.push_back(m);
  }
  for (auto n = heads.rbegin(); n != heads.rend(); ++n) out.push_back(*n * per_node + (nodes > 1 ? channel : 0));
  const Chain last{heads.front(), nodes > 1 ? channel : 0, per_node};
  for (std::int64_t i = 1; i < per_node; ++i) out.push_back(last.position(i));
  return out;
}

}  // namespace moeplan
