#include "model/program/rank_classes.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <set>
#include <unordered_map>

#include "model/costs/communication.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

using Signature = std::vector<std::int64_t>;
using Colour = std::int64_t;

std::int64_t bits(double value) { return std::bit_cast<std::int64_t>(value); }

/// Numbers equal signatures alike, in the order in which they first come.
class Colours {
 public:
  Colour of(Signature signature) {
    return colours_.try_emplace(std::move(signature), static_cast<Colour>(colours_.size())).first->second;
  }
  [[nodiscard]] std::size_t size() const { return colours_.size(); }

 private:
  std::map<Signature, Colour> colours_;
};

struct Crossing {
  std::int32_t other;  // a link of a transfer, or a transfer on a link
  double share;
};

struct Transfer {
  RankId from;
  RankId to;
  Signature traffic;  // pairs of communication and bytes, then the latency
  std::vector<Crossing> links{};
};

/// Operations that run, numbered over all blocks.
std::vector<const Operation*> operations_of(const Program& program) {
  const std::vector<std::int64_t> counts = block_counts(program);
  std::vector<const Operation*> out;
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    if (counts[b] == 0) continue;
    for (const Operation& op : program.blocks[b].operations) out.push_back(&op);
  }
  return out;
}

/// No program has more transfers than this.
std::int64_t most_transfers(const Program& program, const std::vector<const Operation*>& operations) {
  std::set<GroupId> pairwise, rings, trees;
  for (const Operation* op : operations) {
    const Communication* c = op->communication();
    if (!c) continue;
    const bool is_ring = c->collective != Collective::AllToAll && c->collective != Collective::SendReceive;
    (!is_ring ? pairwise : c->pattern == Pattern::Tree ? trees : rings).insert(c->group);
  }
  constexpr std::int64_t kRingEdges = 2, kTreeEdges = 8;  // out of a rank: see ring_edges, tree_edges
  auto most = static_cast<std::int64_t>(rings.size()) * program.world_size * kRingEdges;
  most += static_cast<std::int64_t>(trees.size()) * program.world_size * kTreeEdges;
  for (const GroupId g : pairwise) most += program.world_size * (program.group(g).size - 1);
  return most;
}

/// What a rank does by itself.
Signature own_work(const Program& program, const std::vector<const Operation*>& operations, RankId rank,
                   const Cluster& cluster) {
  Signature s;
  for (const Operation* op : operations) {
    for (const Slice& slice : op->reads) s.push_back(byte_count(program, slice, rank));
    for (const Slice& slice : op->writes) s.push_back(byte_count(program, slice, rank));
    if (op->communication()) {
      const CommunicationCost cost = communication_cost(program, *op, rank, cluster);
      s.insert(s.end(), {bits(cost.startup.value()), cost.rate_cap ? bits(cost.rate_cap->value()) : 0,
                         cost.add_route_latency ? 1 : 0});
      continue;
    }
    const ComputeLoad load = compute_load(program, *op, rank);
    s.insert(s.end(), {bits(load.flops), static_cast<std::int64_t>(load.products.size())});
    for (const GemmShape& p : load.products) s.insert(s.end(), {p.m, p.n, p.k});
  }
  return s;
}

/// All transfers, without their routes; by first communication, then by sender.
std::vector<Transfer> transfers_of(const Program& program, const std::vector<const Operation*>& operations) {
  std::vector<Transfer> transfers;
  std::unordered_map<std::int64_t, std::size_t> index;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Communication* c = operations[i]->communication();
    if (!c) continue;
    const GroupFamily& family = program.group(c->group);
    for (std::int64_t r = 0; r < program.world_size; ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      if (family.base(rank) != rank) continue;
      for (const Flow& f : group_flows(program, *operations[i], rank)) {
        const auto [it, is_new] =
            index.try_emplace(f.from.value() * program.world_size + f.to.value(), transfers.size());
        if (is_new) transfers.push_back({f.from, f.to, {}});
        Signature& traffic = transfers[it->second].traffic;
        traffic.insert(traffic.end(), {static_cast<std::int64_t>(i), f.bytes});
      }
    }
  }
  return transfers;
}

/// Adds routes and latencies. False if they have too many links.
bool add_routes(const Cluster& cluster, std::vector<Transfer>& transfers) {
  std::int64_t crossings = 0;
  for (Transfer& t : transfers) {
    const Route route = cluster.route(t.from, t.to);
    t.traffic.push_back(bits(route.latency.value()));
    t.links.reserve(route.links.size());
    for (const RouteLink& l : route.links) t.links.push_back({l.link.value(), l.share});
    crossings += static_cast<std::int64_t>(route.links.size());
    if (crossings > kMostCrossings) return false;
  }
  return true;
}

class Refinement {
 public:
  Refinement(const Program& program, const Cluster& cluster, const std::vector<const Operation*>& operations,
             std::vector<Transfer> transfers)
      : transfers_(std::move(transfers)), on_link_(cluster.topology.links.size()) {
    Colours work, traffic, bandwidth;
    for (std::int64_t r = 0; r < program.world_size; ++r) {
      rank_.push_back(work.of(own_work(program, operations, RankId(static_cast<std::int32_t>(r)), cluster)));
    }
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      transfer_.push_back(traffic.of(std::move(transfers_[t].traffic)));
      for (const Crossing& c : transfers_[t].links) {
        on_link_[static_cast<std::size_t>(c.other)].push_back({static_cast<std::int32_t>(t), c.share});
      }
    }
    for (const Link& l : cluster.topology.links) link_.push_back(bandwidth.of({bits(l.bandwidth.value())}));
  }

  std::vector<Colour> rank_colours() {
    // A round only splits colours, so that as many as before are the same as before.
    for (std::size_t before = 0, now = round(); now != before;) {
      before = now;
      now = round();
    }
    return rank_;
  }

 private:
  /// Adds (colour, share) of what is crossed, as a multiset.
  static void add_crossings(const std::vector<Crossing>& crossings, const std::vector<Colour>& colour, Signature& s) {
    std::vector<std::pair<Colour, std::int64_t>> sorted;
    sorted.reserve(crossings.size());
    for (const Crossing& c : crossings) sorted.emplace_back(colour[static_cast<std::size_t>(c.other)], bits(c.share));
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [other, share] : sorted) s.insert(s.end(), {other, share});
  }

  /// Splits transfers by ends and links, then ranks and links by transfers. How many colours there are.
  std::size_t round() {
    Colours transfer, rank, link;
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      Signature s{transfer_[t], rank_[transfers_[t].from.index()], rank_[transfers_[t].to.index()]};
      add_crossings(transfers_[t].links, link_, s);
      transfer_[t] = transfer.of(std::move(s));
    }
    std::vector<Signature> out(rank_.size()), in(rank_.size());
    for (std::size_t t = 0; t < transfers_.size(); ++t) {
      out[transfers_[t].from.index()].push_back(transfer_[t]);
      in[transfers_[t].to.index()].push_back(transfer_[t]);
    }
    for (std::size_t r = 0; r < rank_.size(); ++r) {
      std::sort(out[r].begin(), out[r].end());
      std::sort(in[r].begin(), in[r].end());
      Signature s{rank_[r], static_cast<std::int64_t>(out[r].size())};
      s.insert(s.end(), out[r].begin(), out[r].end());
      s.insert(s.end(), in[r].begin(), in[r].end());
      rank_[r] = rank.of(std::move(s));
    }
    for (std::size_t l = 0; l < link_.size(); ++l) {
      Signature s{link_[l]};
      add_crossings(on_link_[l], transfer_, s);
      link_[l] = link.of(std::move(s));
    }
    return transfer.size() + rank.size() + link.size();
  }

  std::vector<Transfer> transfers_;
  std::vector<std::vector<Crossing>> on_link_;
  std::vector<Colour> rank_, transfer_, link_;
};

std::vector<RankClass> classes_of(const std::vector<Colour>& colours) {
  std::vector<RankClass> classes;
  std::map<Colour, std::size_t> index;
  for (std::size_t r = 0; r < colours.size(); ++r) {
    const auto [it, is_new] = index.try_emplace(colours[r], classes.size());
    if (is_new) classes.push_back({RankId(r), {}});
    classes[it->second].members.emplace_back(r);
  }
  return classes;
}

std::vector<RankClass> singletons(std::int64_t world) {
  std::vector<RankClass> classes;
  for (std::size_t r = 0; r < static_cast<std::size_t>(world); ++r) classes.push_back({RankId(r), {RankId(r)}});
  return classes;
}

}  // namespace

std::vector<RankClass> rank_classes(const Program& program, const Cluster& cluster) {
  assert(program.world_size <= cluster.world_size() && "the cluster has a GPU for every rank");
  if (cluster.ranks_per_gpu > 1) return singletons(program.world_size);
  const std::vector<const Operation*> operations = operations_of(program);
  if (most_transfers(program, operations) > kMostTransfers) return singletons(program.world_size);
  std::vector<Transfer> transfers = transfers_of(program, operations);
  if (!add_routes(cluster, transfers)) return singletons(program.world_size);
  return classes_of(Refinement(program, cluster, operations, std::move(transfers)).rank_colours());
}

}  // namespace moeplan
