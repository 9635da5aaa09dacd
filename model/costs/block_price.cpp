#include "model/costs/block_price.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/machine/rank_routes.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"
#include "model/program/same_work.hpp"

namespace moeplan {

namespace {

constexpr auto kReplicas = static_cast<std::size_t>(Stream::Replicas);

/// A rank's traffic in one communication, by link; has few entries, so a list.
class LinkLoad {
 public:
  explicit LinkLoad(std::size_t links) : bytes_(links, 0.0) {}
  void add(LinkId link, double bytes) {
    if (bytes_[link.index()] == 0) touched_.push_back(link);
    bytes_[link.index()] += bytes;
  }
  [[nodiscard]] double slowest(const Topology& topology) const {
    double time = 0;
    for (const LinkId l : touched_) {
      time = std::max(time, bytes_[l.index()] / topology.links[l.index()].bandwidth.value());
    }
    return time;
  }
  [[nodiscard]] const std::vector<LinkId>& touched() const { return touched_; }
  [[nodiscard]] double on(LinkId link) const { return bytes_[link.index()]; }
  void clear() {
    for (const LinkId l : touched_) bytes_[l.index()] = 0;
    touched_.clear();
  }

 private:
  std::vector<double> bytes_;
  std::vector<LinkId> touched_;
};

/// Times of one operation by rank: alone, and concurrently with all ranks that execute it.
struct OperationTimes {
  std::vector<double> alone;  // a lower bound on each rank's part
  std::vector<double> together;
};

/// A priced operation, reused for operations with the same work.
struct PricedOperation {
  const Operation* operation;
  OperationTimes times;
  std::vector<std::pair<std::size_t, double>> link_seconds;  // by link
};

}  // namespace

class BlockPricer::State {
 public:
  State(const Program& program, const Cluster& cluster, PricedRanks ranks)
      : program_(program),
        cluster_(cluster),
        routes_(cluster),
        all_(cluster.topology.links.size()),
        own_(cluster.topology.links.size()),
        view_(representatives_view(program, cluster)),
        first_alone_(!view_ && ranks == PricedRanks::First),
        prices_(program.blocks.size()) {}

  const BlockPrice& price(BlockId id) {
    std::optional<BlockPrice>& known = prices_[id.index()];
    if (!known) known = make(program_.blocks[id.index()]);
    return *known;
  }

  std::string link_name(std::size_t index) const {
    std::size_t l = index;
    if (view_) {
      const auto& orbits = view_->orbit_of_link;
      l = static_cast<std::size_t>(std::find(orbits.begin(), orbits.end(), static_cast<std::int32_t>(index)) -
                                   orbits.begin());
    }
    return cluster_.topology.link_name(LinkId(l));
  }

  /// The ranks to evaluate: the representatives, or all.
  std::size_t ranks() const {
    if (first_alone_) return 1;
    return static_cast<std::size_t>(view_ ? view_->representatives : program_.world_size);
  }

 private:
  /// The longest chains of the block on every rank from its start, along dependencies and streams.
  BlockPrice make(const Block& block) {
    const std::size_t world = ranks(), operations = block.operations.size();
    BlockPrice price;
    price.alone.assign(world, 0.0);
    price.background.assign(world, 0.0);
    price.compute.assign(world * kStreams, 0.0);
    std::vector<double> background_together(world, 0.0);
    link_seconds_.assign(view_ ? view_->capacity.size() : cluster_.topology.links.size(), 0.0);
    std::vector<double> alone(world * operations, 0.0), together(world * operations, 0.0);
    std::array<std::int64_t, kStreams> last{};  // the previous operation on each stream
    last.fill(-1);
    for (std::size_t i = 0; i < operations; ++i) {
      const Operation& op = block.operations[i];
      const auto stream = static_cast<std::size_t>(op.stream);
      const OperationTimes& c = operation(op);
      if (op.computes()) {
        for (std::size_t r = 0; r < world; ++r) price.compute[r * kStreams + stream] += c.alone[r];
      }
      double first_alone = 0, first_together = 0;
      for (std::size_t r = 0; r < world; ++r) {
        double start_alone = 0, start_together = 0;
        const auto follow = [&](std::int64_t before) {
          const std::size_t at = r * operations + static_cast<std::size_t>(before);
          start_alone = std::max(start_alone, alone[at]);
          start_together = std::max(start_together, together[at]);
        };
        for (const std::int32_t a : op.after) follow(a);
        if (last[stream] >= 0 && !is_background(op.stream)) follow(last[stream]);
        first_alone = r == 0 ? start_alone : std::min(first_alone, start_alone);
        first_together = std::max(first_together, start_together);
        const double own = c.alone[r], shared = c.together[r];
        const std::size_t at = r * operations + i;
        alone[at] = start_alone + own;
        together[at] = start_together + shared;
        if (is_background(op.stream)) {
          if (stream != kReplicas) continue;
          price.background[r] += own;
          background_together[r] += shared;
          continue;
        }
        price.alone[r] = std::max(price.alone[r], alone[at]);
        price.together = std::max(price.together, together[at]);
      }
      if (std::holds_alternative<Send>(op.work)) {
        price.sends_alone.emplace_back(static_cast<std::int32_t>(i), first_alone);
        price.sends_together.emplace_back(static_cast<std::int32_t>(i), first_together);
      }
      last[stream] = static_cast<std::int64_t>(i);
    }
    price.background_together = *std::max_element(background_together.begin(), background_together.end());
    price.link_seconds = link_seconds_;
    return price;
  }

  /// The operation's times; adds its traffic to link_seconds_.
  const OperationTimes& operation(const Operation& op) {
    const auto known = std::find_if(priced_.begin(), priced_.end(),
                                    [&](const PricedOperation& p) { return same_work(program_, *p.operation, op); });
    if (known != priced_.end()) {
      for (const auto& [link, seconds] : known->link_seconds) link_seconds_[link] += seconds;
      return known->times;
    }
    PricedOperation& p = priced_.emplace_back(PricedOperation{&op, {}, {}});
    OperationTimes& times = p.times;
    if (op.communication()) {
      std::vector<double> before(link_seconds_.size(), 0.0);
      before.swap(link_seconds_);
      times = view_ ? representatives(op) : first_alone_ ? first_rank(op) : communication(op);
      for (std::size_t l = 0; l < before.size(); ++l) {
        if (link_seconds_[l] > 0) p.link_seconds.emplace_back(l, link_seconds_[l]);
        link_seconds_[l] += before[l];
      }
    } else if (op.computes()) {
      for (std::size_t r = 0; r < ranks(); ++r) {
        times.alone.push_back(compute_time(program_, op, RankId(r), cluster_.gpu).value());
      }
      times.together = times.alone;
      share_gpus(times.together);
    } else {
      times.alone.assign(ranks(), 0.0);
      times.together.assign(ranks(), 0.0);
    }
    return times;
  }

  /// The time of an operation on each rank that shares a GPU, if all of them begin it together: with equal parts of the
  /// GPU, each other rank has used min(own, theirs) by the time it ends.
  void share_gpus(std::vector<double>& times) const {
    if (cluster_.ranks_per_gpu == 1 || first_alone_) return;
    const auto shared_by = static_cast<std::size_t>(cluster_.ranks_per_gpu);
    const std::vector<double> alone = times;
    for (std::size_t r = 0; r < times.size(); ++r) {
      const std::size_t first = r - r % shared_by, last = std::min(first + shared_by, times.size());
      times[r] = 0;
      for (std::size_t other = first; other < last; ++other) times[r] += std::min(alone[r], alone[other]);
    }
  }

  /// A representative's part of a communication.
  struct Part {
    std::vector<double> load{};  // by orbit: of the data that it sends or receives
    double sent = 0, received = 0, latency = 0;
    std::optional<double> least_latency{};  // none without a flow
    void add(const SymmetricView::Way& way, double bytes, bool waits) {
      for (const auto& [orbit, share] : way.orbits) load[static_cast<std::size_t>(orbit)] += bytes * share;
      if (!waits) return;
      latency = std::max(latency, way.latency.value());
      least_latency = std::min(least_latency.value_or(way.latency.value()), way.latency.value());
    }
  };

  /// All images of a representative take part at once, so the total load of all of them on a link bounds each one's
  /// time too.
  OperationTimes representatives(const Operation& op) {
    const GroupFamily& family = program_.group(op.communication()->group);
    const std::size_t count = ranks(), orbits = view_->capacity.size();
    std::vector<Part> parts(count, Part{.load = std::vector<double>(orbits, 0.0)});
    std::vector<double> all(orbits, 0.0);
    std::vector<CommunicationCost> costs;  // equal within a group
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t base = family.base(RankId(r)).index();
      costs.push_back(base < r ? costs[base] : communication_cost(program_, op, RankId(r), cluster_));
      const CommunicationCost& cost = costs.back();
      for (const Flow& flow : flows_from(program_, op, RankId(r))) {
        const auto bytes = static_cast<double>(flow.bytes);
        const SymmetricView::Way& way = way_of_flow(*view_, program_, op, flow.from, flow.to);
        const std::size_t to = flow.to.index() % count;
        for (const auto& [orbit, share] : way.orbits) all[static_cast<std::size_t>(orbit)] += bytes * share;
        parts[r].sent += bytes;
        parts[to].received += bytes;
        parts[r].add(way, bytes, cost.add_route_latency);
        if (to != r) parts[to].add(way, bytes, cost.add_route_latency);
      }
    }
    const double links = slowest(all);
    for (std::size_t o = 0; o < orbits; ++o) link_seconds_[o] += all[o] / view_->capacity[o];
    std::vector<double> longest(count, 0.0);  // latency, by the group's first rank
    for (std::size_t r = 0; r < count; ++r) {
      double& of_group = longest[family.base(RankId(r)).index()];
      of_group = std::max(of_group, parts[r].latency);
    }
    OperationTimes out;
    for (std::size_t r = 0; r < count; ++r) {
      Part& p = parts[r];
      if (runs_in_rings(*op.communication())) {
        p.latency = longest[family.base(RankId(r)).index()];
        if (p.least_latency) p.least_latency = p.latency;
      }
      const double capped = costs[r].rate_cap ? std::max(p.sent, p.received) / costs[r].rate_cap->value() : 0.0;
      const double startup = costs[r].startup.value();
      out.alone.push_back(startup + p.least_latency.value_or(0) + std::max(slowest(p.load), capped));
      out.together.push_back(startup + p.latency + std::max(links, capped));
    }
    return out;
  }

  /// Time of loads by orbit.
  [[nodiscard]] double slowest(const std::vector<double>& load) const {
    double time = 0;
    for (std::size_t o = 0; o < load.size(); ++o) {
      if (load[o] > 0) time = std::max(time, load[o] / view_->capacity[o]);
    }
    return time;
  }

  /// Its part alone on the links: a lower bound.
  OperationTimes first_rank(const Operation& op) {
    const RankId rank(0);
    const CommunicationCost cost = communication_cost(program_, op, rank, cluster_);
    double sent = 0, received = 0, latency = 0, least_latency = 0;
    bool any = false;
    own_.clear();
    for (const bool out : {true, false}) {
      for (const Flow& flow : out ? flows_from(program_, op, rank) : flows_to(program_, op, rank)) {
        const auto bytes = static_cast<double>(flow.bytes);
        const Route& route = routes_.between(flow.from, flow.to);
        for (const RouteLink& l : route.links) own_.add(l.link, bytes * l.share);
        (out ? sent : received) += bytes;
        if (!cost.add_route_latency) continue;
        latency = std::max(latency, route.latency.value());
        least_latency = any ? std::min(least_latency, route.latency.value()) : route.latency.value();
        any = true;
      }
    }
    if (runs_in_rings(*op.communication())) least_latency = latency;
    double most = own_.slowest(cluster_.topology);
    if (cost.rate_cap) most = std::max(most, std::max(sent, received) / cost.rate_cap->value());
    const double time = cost.startup.value() + least_latency + most;
    return {{time}, {time}};
  }

  OperationTimes communication(const Operation& op) {
    const auto world = static_cast<std::size_t>(program_.world_size);
    const GroupFamily& family = program_.group(op.communication()->group);
    OperationTimes out{std::vector<double>(world, 0.0), std::vector<double>(world, 0.0)};
    std::vector<double> startup(world, 0.0), capped(world, 0.0);
    all_.clear();
    for (std::size_t r = 0; r < world; ++r) {
      if (family.base(RankId(r)) != RankId(r)) continue;
      price_group(op, RankId(r), out.alone, startup, capped);
    }
    const double links = all_.slowest(cluster_.topology);
    for (std::size_t r = 0; r < world; ++r) out.together[r] = startup[r] + std::max(links, capped[r]);
    return out;
  }

  void price_group(const Operation& op, RankId base, std::vector<double>& alone, std::vector<double>& startup,
                   std::vector<double>& capped) {
    const GroupFamily& family = program_.group(op.communication()->group);
    const std::vector<Flow> flows = group_flows(program_, op, base);
    const CommunicationCost cost = communication_cost(program_, op, base, cluster_);
    const auto size = static_cast<std::size_t>(family.size);
    std::vector<double> out(size, 0.0), in(size, 0.0), latency(size, 0.0);
    std::vector<std::optional<double>> least_latency(size);  // none without flows; a route's latency may be zero
    std::vector<std::vector<std::pair<LinkId, double>>> loads(size);
    for (const Flow& flow : flows) {
      const auto bytes = static_cast<double>(flow.bytes);
      const Route& route = routes_.between(flow.from, flow.to);
      const auto from = static_cast<std::size_t>(family.position(flow.from));
      const auto to = static_cast<std::size_t>(family.position(flow.to));
      out[from] += bytes;
      in[to] += bytes;
      for (const RouteLink& l : route.links) {
        all_.add(l.link, bytes * l.share);
        link_seconds_[l.link.index()] += bytes * l.share / cluster_.topology.links[l.link.index()].bandwidth.value();
        loads[from].emplace_back(l.link, bytes * l.share);
        if (to != from) loads[to].emplace_back(l.link, bytes * l.share);
      }
      if (!cost.add_route_latency) continue;
      for (const std::size_t end : {from, to}) {
        latency[end] = std::max(latency[end], route.latency.value());
        least_latency[end] = std::min(least_latency[end].value_or(route.latency.value()), route.latency.value());
      }
    }
    if (runs_in_rings(*op.communication())) {
      const double longest = *std::max_element(latency.begin(), latency.end());
      for (std::size_t p = 0; p < size; ++p) {
        latency[p] = longest;
        if (least_latency[p]) least_latency[p] = longest;
      }
    }
    for (std::size_t p = 0; p < size; ++p) {
      const std::size_t r = family.member(base, static_cast<std::int64_t>(p)).index();
      own_.clear();
      for (const auto& [link, bytes] : loads[p]) own_.add(link, bytes);
      const double most = std::max(out[p], in[p]);
      capped[r] = cost.rate_cap ? most / cost.rate_cap->value() : 0.0;
      // All of the rank's flows wait for at least the smallest of their latencies.
      alone[r] =
          cost.startup.value() + least_latency[p].value_or(0) + std::max(own_.slowest(cluster_.topology), capped[r]);
      startup[r] = cost.startup.value() + latency[p];
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  RankRoutes routes_;
  LinkLoad all_, own_;
  const SymmetricView* view_;         // if some ranks represent all
  bool first_alone_;                  // no representatives, and only rank 0 is priced
  std::vector<double> link_seconds_;  // of the block being priced
  std::deque<PricedOperation> priced_;
  std::vector<std::optional<BlockPrice>> prices_;
};

BlockPricer::BlockPricer(const Program& program, const Cluster& cluster, PricedRanks ranks)
    : state_(std::make_unique<State>(program, cluster, ranks)) {}
BlockPricer::~BlockPricer() = default;

const BlockPrice& BlockPricer::price(BlockId block) { return state_->price(block); }
std::size_t BlockPricer::ranks() const { return state_->ranks(); }
std::string BlockPricer::link_name(std::size_t index) const { return state_->link_name(index); }

}  // namespace moeplan
