#include "model/costs/stage_clusters.hpp"

#include <algorithm>

#include "model/costs/communication.hpp"

namespace moeplan {

namespace {

/// The cost of the messages from one stage to another, of `ranks` ranks each.
StageTransfer priced_transfer(const Cluster& cluster, std::int64_t ranks, std::int64_t from, std::int64_t to) {
  StageTransfer t;
  Program one;  // a single Send, to price it
  one.world_size = cluster.world_size();
  one.groups = {{"stages", cluster.world_size() / ranks, ranks}};
  const Operation send{.name = "send",
                       .op_class = OpClass::Pipeline,
                       .stream = Stream::Pipeline,
                       .work = Send{GroupId(0), to - from, 0},
                       .reads = {},
                       .writes = {},
                       .after = {}};
  std::vector<double> load(cluster.topology.links.size(), 0.0);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const RankId sender(static_cast<std::int32_t>(from * ranks + i)),
        receiver(static_cast<std::int32_t>(to * ranks + i));
    const CommunicationCost cost = communication_cost(one, send, sender, cluster);
    const Route route = cluster.route(sender, receiver);
    const Seconds startup = cost.startup + (cost.add_route_latency ? route.latency : Seconds(0));
    double slowest = cost.rate_cap ? 1 / cost.rate_cap->value() : 0.0;
    double together = slowest;
    for (const RouteLink& l : route.links) {
      const double bandwidth = cluster.topology.links[l.link.index()].bandwidth.value();
      load[l.link.index()] += l.share;
      slowest = std::max(slowest, l.share / bandwidth);
      together = std::max(together, load[l.link.index()] / bandwidth);
    }
    t.startup = std::max(t.startup, startup);
    t.per_byte = std::max(t.per_byte, SecondsPerByte(together));
    t.alone_startup = i == 0 ? startup : std::min(t.alone_startup, startup);
    t.alone_per_byte = i == 0 ? SecondsPerByte(slowest) : std::min(t.alone_per_byte, SecondsPerByte(slowest));
  }
  return t;
}

}  // namespace

const SubCluster& StageClusters::of(std::int64_t stages, std::int64_t stage) {
  const std::lock_guard lock(mutex_);
  return known(stages, stage);
}

const SubCluster& StageClusters::known(std::int64_t stages, std::int64_t stage) {
  std::unique_ptr<SubCluster>& machine = machines_[{stages, stage}];
  if (!machine) {
    const std::int64_t ranks = cluster_.world_size() / stages;
    machine = std::make_unique<SubCluster>(sub_cluster(cluster_, stage * ranks, ranks));
  }
  return *machine;
}

std::int64_t StageClusters::period(std::int64_t stages) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = periods_.try_emplace(stages, 1);
  if (!is_new) return it->second;
  std::int64_t& period = it->second;
  const std::int64_t ranks = cluster_.world_size() / stages;
  while (stages % period != 0 || !sub_clusters_are_equivalent(cluster_, period * ranks)) ++period;
  return period;
}

const StageClusters::Equivalent& StageClusters::equivalent(std::int64_t stages, std::int64_t stage) {
  constexpr std::int64_t kMostRoutes = std::int64_t{1} << 20U;  // of all stages; assumed: about a second
  const std::lock_guard lock(mutex_);
  std::deque<Equivalent>& found = equivalents_[stages];
  for (std::int64_t s = std::ssize(found); s <= stage; ++s) {
    Equivalent own{s, {}};
    const bool may_compare = cluster_.world_size() / stages * cluster_.world_size() <= kMostRoutes;
    for (std::int64_t first = 0; may_compare && first < s && own.stage == s; ++first) {
      if (found[static_cast<std::size_t>(first)].stage != first) continue;
      auto links = corresponding_links(known(stages, first).cluster, known(stages, s).cluster);
      if (links) own = {first, std::move(*links)};
    }
    found.push_back(std::move(own));
  }
  return found[static_cast<std::size_t>(stage)];
}

const StageTransfer& StageClusters::known_transfer(std::int64_t stages, std::int64_t from, std::int64_t to) {
  const auto [it, is_new] = transfers_.try_emplace({stages, from, to});
  if (!is_new || from == to) return it->second;
  const std::int64_t ranks = cluster_.world_size() / stages;
  const SymmetricView* view = from > 0 ? view_of_ranges(cluster_, ranks) : nullptr;
  if (view) {  // its rotations turn the sending stage into the first one
    const auto first_of = [&](std::int64_t stage) { return RankId(static_cast<std::int32_t>(stage * ranks)); };
    it->second = known_transfer(stages, 0, view->turned(first_of(from), first_of(to)).value() / ranks);
  } else {
    it->second = priced_transfer(cluster_, ranks, from, to);
  }
  return it->second;
}

StageTransfer StageClusters::transfer(std::int64_t stages, std::int64_t from, std::int64_t to) {
  const std::lock_guard lock(mutex_);
  return known_transfer(stages, from, to);
}

}  // namespace moeplan
