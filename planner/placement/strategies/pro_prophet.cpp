#include "planner/placement/strategies/pro_prophet.hpp"

#include <algorithm>
#include <numeric>

#include "planner/placement/shadow.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

Seconds pro_prophet_time(std::int64_t most_received, std::int64_t most_computed, std::int64_t selected,
                         std::int64_t not_sent, const PlacementDevices& devices, bool scheduled) {
  const BytesPerSecond b = chain_bandwidth(devices);
  const auto d = static_cast<double>(devices.ranks);
  const Seconds a2a = static_cast<double>(most_received) * devices.token_bytes / average_bandwidth(devices);  // eq. (1)
  const Seconds fec = static_cast<double>(most_computed) * devices.token_time;                                // eq. (2)
  const double sent = static_cast<double>(selected) * (d - static_cast<double>(not_sent)) / d;
  Seconds trans = sent * devices.parameter_bytes / b;  // eq. (4)
  Seconds agg = sent * devices.gradient_bytes / b;     // eq. (5)
  if (scheduled) {                                     // eq. (8)
    trans = std::max(Seconds(0), trans - fec - devices.non_expert_time);
    agg = std::max(Seconds(0), agg - 2 * fec - 2 * devices.non_expert_time);
  }
  return 4 * a2a + 3 * fec + trans + agg;  // eq. (6)
}

namespace {

class Greedy {
 public:
  Greedy(const ExpertColumns& columns, const std::vector<std::int64_t>& homes, std::vector<std::int64_t> free)
      : columns_(columns),
        homes_(homes),
        free_(std::move(free)),
        computed_(free_.size(), 0),
        received_(free_.size(), 0),
        at_home_(homes.size()),
        used_(homes.size(), 0) {
    for (std::size_t e = 0; e < homes.size(); ++e) {
      const auto home = static_cast<std::size_t>(homes[e]);
      at_home_[e] = columns.load(e);
      computed_[home] += columns.load(e);
      received_[home] += columns.load(e) - columns.column(e)[home];
    }
  }

  [[nodiscard]] const std::vector<std::int64_t>& computed() const { return computed_; }
  [[nodiscard]] std::int64_t most_received() const { return *std::max_element(received_.begin(), received_.end()); }

  /// The expert with the most inputs computed on the heaviest device, and whether it was selected before.
  [[nodiscard]] std::pair<std::size_t, bool> next() const {
    const auto device = std::max_element(computed_.begin(), computed_.end()) - computed_.begin();
    std::size_t best = 0;
    std::int64_t most = -1;
    for (std::size_t e = 0; e < homes_.size(); ++e) {
      const std::int64_t inputs = homes_[e] == device ? at_home_[e] : used_[e] ? local(e, device) : -1;
      if (inputs <= most) continue;
      most = inputs;
      best = e;
    }
    return {best, used_[best] != 0};
  }

  /// Selects the expert; returns, by device, whether it is not sent there.
  std::vector<char> select(std::size_t e, std::int64_t n) {
    const auto home = static_cast<std::size_t>(homes_[e]);
    const auto inputs = columns_.column(e);
    std::vector<char> without(free_.size(), 0);
    std::vector<std::size_t> others;
    for (std::size_t d = 0; d < free_.size(); ++d) {
      if (d != home) others.push_back(d);
    }
    const auto few = std::min(static_cast<std::size_t>(n), others.size());
    std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(few), others.end(),
                      [&](std::size_t a, std::size_t b) { return std::pair(inputs[a], a) < std::pair(inputs[b], b); });
    for (std::size_t i = 0; i < few; ++i) without[others[i]] = 1;
    used_[e] = 1;
    without_.resize(homes_.size());
    for (std::size_t d = 0; d < free_.size(); ++d) {
      if (d == home) continue;
      if (free_[d] == 0) without[d] = 1;
      if (without[d]) continue;
      --free_[d];
      computed_[home] -= inputs[d];
      received_[home] -= inputs[d];
      at_home_[e] -= inputs[d];
      computed_[d] += inputs[d];
    }
    without_[e] = without;
    return without;
  }

 private:
  [[nodiscard]] std::int64_t local(std::size_t e, std::ptrdiff_t device) const {
    const auto d = static_cast<std::size_t>(device);
    return without_[e][d] ? -1 : columns_.column(e)[d];
  }

  const ExpertColumns& columns_;
  const std::vector<std::int64_t>& homes_;
  std::vector<std::int64_t> free_, computed_, received_, at_home_;
  std::vector<char> used_;
  std::vector<std::vector<char>> without_;
};

}  // namespace

ProProphetPlan pro_prophet_plan(const ExpertColumns& columns, const std::vector<std::int64_t>& homes,
                                std::vector<std::int64_t> free, std::int64_t n, double alpha,
                                const PlacementDevices& devices, bool scheduled) {
  Greedy greedy(columns, homes, std::move(free));
  const auto loads = columns.loads();
  const double inputs = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const double balanced = alpha * inputs / static_cast<double>(loads.size());  // eq. (7)
  ProProphetPlan plan;
  std::size_t best_prefix = 0;
  while (true) {
    const auto [least, most] = std::minmax_element(greedy.computed().begin(), greedy.computed().end());
    const auto selected = static_cast<std::int64_t>(plan.selected.size());
    const Seconds time =
        pro_prophet_time(greedy.most_received(), *most, selected, selected > 0 ? n : 0, devices, scheduled);
    if (selected == 0) plan.time = plan.time_before = time;
    if (time < plan.time) {
      plan.time = time;
      best_prefix = plan.selected.size();
    }
    if (static_cast<double>(*most - *least) < balanced) break;
    const auto [expert, repeats] = greedy.next();
    if (repeats) break;
    plan.not_sent.push_back(greedy.select(expert, n));
    plan.selected.push_back(expert);
  }
  plan.selected.resize(best_prefix);
  plan.not_sent.resize(best_prefix);
  return plan;
}

namespace {

class ProProphet final : public PlacementStrategy {
 public:
  explicit ProProphet(ProProphetParts parts) : parts_(parts) {}
  std::string_view name() const override {
    return parts_ == ProProphetParts::Planner               ? "pro_prophet_planner"
           : parts_ == ProProphetParts::PlannerAndScheduler ? "pro_prophet_eq6"
                                                            : "pro_prophet";
  }
  std::string_view summary() const override {
    return parts_ == ProProphetParts::Planner
               ? "the planner alone, for which transfers block [Pro-Prophet fig. 14, eq. 6]"
           : parts_ == ProProphetParts::PlannerAndScheduler
               ? "the planner for blocking transfers, which the scheduler then hides [Pro-Prophet fig. 14, eq. 6]"
               : "greedy planner with transfers concurrent with computations [Pro-Prophet algorithm 1, eq. 8]";
  }
  bool replans() const override { return true; }
  bool has_blocking_transfers() const override { return parts_ == ProProphetParts::Planner; }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    const PlacementDevices& d = problem.devices;
    Placement placement = contiguous_placement(problem.experts(), d.ranks);
    std::vector<std::int64_t> free = slots_free(placement, d), homes;
    for (const ExpertPlacement& place : placement.experts) homes.push_back(place.home.value());
    const auto n = static_cast<std::int64_t>(problem.options.pro_prophet_n_share * static_cast<double>(d.ranks));
    const ProProphetPlan plan =
        pro_prophet_plan(ExpertColumns(problem.counts), homes, free, n, problem.options.pro_prophet_alpha, d,
                         /*scheduled=*/parts_ == ProProphetParts::Full);
    for (std::size_t i = 0; i < plan.selected.size(); ++i) {
      shadow(placement.experts[plan.selected[i]], free, plan.not_sent[i]);
    }
    return {std::move(placement)};
  }

 private:
  ProProphetParts parts_;
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_pro_prophet_placement(ProProphetParts parts) {
  return std::make_unique<ProProphet>(parts);
}

}  // namespace moeplan::planner
