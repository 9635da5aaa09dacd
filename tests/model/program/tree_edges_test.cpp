#include "model/program/tree_edges.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <set>

namespace moeplan::tests::tree_edges_test {

namespace {

constexpr std::int64_t kMostNodes = 70;

bool is_leaf(const DoubleTree& t, int which, std::int64_t n) { return t.children(which, n).empty(); }

std::int64_t depth(const DoubleTree& t, int which, std::int64_t n) {
  std::int64_t d = 0;
  for (auto p = t.parent(which, n); p; p = t.parent(which, *p)) ++d;
  return d;
}

TreeEdge all_to(const std::vector<TreeEdge>& edges, std::int64_t peer) {
  TreeEdge all{peer};
  for (const TreeEdge& e : edges) {
    if (e.peer != peer) continue;
    all.sends += e.sends;
    all.receives += e.receives;
  }
  return all;
}

}  // namespace

TEST_CASE("the trees are those that NCCL draws") {
  SECTION("14 nodes: 8 under 0, 4 and 12 under 8, 13 under 12 because 14 is not there") {
    const DoubleTree t(14, false);
    CHECK(t.children(0, 0) == std::vector<std::int64_t>{8});
    CHECK(t.children(0, 8) == std::vector<std::int64_t>{4, 12});
    CHECK(t.children(0, 12) == std::vector<std::int64_t>{10, 13});
    CHECK(t.parent(0, 13) == 12);
  }
  SECTION("12 nodes: the second tree is the first in a mirror") {
    const DoubleTree t(12, false);
    CHECK_FALSE(t.parent(1, 11));
    CHECK(t.children(1, 11) == std::vector<std::int64_t>{3});
    CHECK(t.children(1, 3) == std::vector<std::int64_t>{7, 1});
    CHECK(t.children(1, 7) == std::vector<std::int64_t>{9, 5});
  }
  SECTION("13 nodes: the second tree is the first, turned by one") {
    const DoubleTree t(13, false);
    CHECK_FALSE(t.parent(1, 1));
    CHECK(t.children(1, 1) == std::vector<std::int64_t>{9});
    CHECK(t.children(1, 0) == std::vector<std::int64_t>{11});
  }
}

TEST_CASE("both trees span all nodes, at a depth of log2, and who is inside in one is a leaf of the other") {
  for (const bool rooted : {false, true}) {
    for (std::int64_t nodes = 1; nodes <= kMostNodes; ++nodes) {
      CAPTURE(rooted, nodes);
      const DoubleTree t(nodes, rooted);
      std::int64_t inside_twice = 0;
      for (int which = 0; which < 2; ++which) {
        std::int64_t roots = 0, deepest = 0;
        std::multiset<std::int64_t> below;
        for (std::int64_t n = 0; n < nodes; ++n) {
          const auto p = t.parent(which, n);
          const auto children = t.children(which, n);
          REQUIRE(children.size() <= 2);
          below.insert(children.begin(), children.end());
          for (const std::int64_t c : children) REQUIRE(t.parent(which, c) == n);
          roots += p ? 0 : 1;
          if (!p && rooted) REQUIRE(n == 0);
          deepest = std::max(deepest, depth(t, which, n));
        }
        REQUIRE(roots == 1);
        REQUIRE(below.size() == static_cast<std::size_t>(nodes - 1));
        REQUIRE(std::set(below.begin(), below.end()).size() == below.size());
        REQUIRE(deepest == static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(nodes - 1))));
      }
      for (std::int64_t n = rooted ? 1 : 0; n < nodes; ++n) {
        inside_twice += !is_leaf(t, 0, n) && !is_leaf(t, 1, n) ? 1 : 0;
      }
      // As many nodes inside as leaves, if their number is even.
      REQUIRE(inside_twice <= (!rooted && nodes % 2 == 1 && nodes > 1 ? 1 : 0));
    }
  }
}

TEST_CASE("every rank gets every byte of a tree collective once") {
  CHECK(rc::check("edges of two ends agree, and add up", [] {
    const std::int64_t per_node = *rc::gen::inRange<std::int64_t>(1, 9);
    const std::int64_t nodes = *rc::gen::inRange<std::int64_t>(1, 20);
    const std::int64_t bytes = *rc::gen::inRange<std::int64_t>(0, 100'000);
    const std::int64_t size = per_node * nodes;
    const std::int64_t to_others = 2 * (bytes / per_node + 1) + 4;  // two halves of a channel's part, rounded
    for (const Collective c : {Collective::AllReduce, Collective::Broadcast}) {
      std::vector<std::vector<TreeEdge>> edges;
      for (std::int64_t p = 0; p < size; ++p) edges.push_back(tree_edges(c, p, size, per_node, bytes));
      std::int64_t all = 0;
      for (std::int64_t p = 0; p < size; ++p) {
        std::int64_t received = 0, leaves = 0;
        for (const TreeEdge& e : edges[static_cast<std::size_t>(p)]) {
          const TreeEdge there = all_to(edges[static_cast<std::size_t>(p)], e.peer);
          const TreeEdge back = all_to(edges[static_cast<std::size_t>(e.peer)], p);
          RC_ASSERT(back.sends == there.receives);
          RC_ASSERT(back.receives == there.sends);
          received += e.receives;
          if (e.peer / per_node != p / per_node) leaves += e.sends;
        }
        all += received;
        // A member's NIC: an all-reduce sends its channel's part up and down once each, a broadcast once.
        RC_ASSERT(leaves <= (c == Collective::AllReduce ? to_others : bytes / per_node + 3));
        if (c == Collective::Broadcast) RC_ASSERT(received == (p == 0 ? 0 : bytes));
      }
      // Each byte passes each of the size - 1 edges of its tree, up and down.
      if (c == Collective::AllReduce) RC_ASSERT(all == 2 * (size - 1) * bytes);
    }
  }));
}

TEST_CASE("the longest way of a tree goes through its deepest node and that node's chain") {
  using Way = std::vector<std::int64_t>;
  SECTION("one node of 4: the chain") {
    CHECK(longest_tree_path(Collective::AllReduce, 4, 4) == Way{0, 1, 2, 3});
    CHECK(longest_tree_path(Collective::Broadcast, 4, 4) == Way{0, 1, 2, 3});
  }
  SECTION("4 nodes of 1: 0, 2, then its first child") {
    CHECK(longest_tree_path(Collective::AllReduce, 4, 1) == Way{0, 2, 1});
    CHECK(longest_tree_path(Collective::Broadcast, 4, 1) == Way{0, 2, 1});
  }
  SECTION("2 nodes of 3: a broadcast leaves the root's node last at member 2") {
    CHECK(longest_tree_path(Collective::AllReduce, 6, 3) == Way{0, 3, 4, 5});
    CHECK(longest_tree_path(Collective::Broadcast, 6, 3) == Way{0, 1, 2, 5, 3, 4});
  }
}

}  // namespace moeplan::tests::tree_edges_test
