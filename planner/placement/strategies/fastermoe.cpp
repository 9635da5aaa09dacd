#include "planner/placement/strategies/fastermoe.hpp"

#include <algorithm>

#include "planner/placement/shadow.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

Seconds fastermoe_imbalanced_latency(std::int64_t largest, const PlacementDevices& d) {
  const auto tokens = static_cast<double>(largest);
  return 3 * tokens * d.token_time + 4 * tokens * d.token_bytes / average_bandwidth(d);
}

Seconds fastermoe_shadowed_latency(std::int64_t shadowed, std::int64_t largest, const PlacementDevices& d) {
  return 3 * static_cast<double>(largest) * d.token_time +
         2 * static_cast<double>(shadowed) * d.parameter_bytes / average_bandwidth(d);
}

namespace {

/// r alpha H': the tokens whose inputs, four times, have as many bytes as the parameters and gradients that are sent.
double tokens_of_parameters(std::int64_t shadowed, const PlacementDevices& d) {
  return static_cast<double>(shadowed) * d.parameter_bytes / (2 * d.token_bytes);
}

}  // namespace

bool fastermoe_sends_less(std::int64_t shadowed, std::int64_t before, const PlacementDevices& d) {
  return static_cast<double>(before) > tokens_of_parameters(shadowed, d);
}

bool fastermoe_saves_more(std::int64_t shadowed, std::int64_t before, std::int64_t after, const PlacementDevices& d) {
  const double added = tokens_of_parameters(shadowed, d) - static_cast<double>(before);
  if (added < 0) return false;
  return 3 * static_cast<double>(before - after) * d.token_time > 4 * added * (d.token_bytes / average_bandwidth(d));
}

namespace {

/// Takes a slot on every rank except the expert's home; false if one has none.
bool take_slots(std::vector<std::int64_t>& free, std::int64_t home) {
  for (std::size_t r = 0; r < free.size(); ++r) {
    if (static_cast<std::int64_t>(r) != home && free[r] == 0) return false;
  }
  for (std::size_t r = 0; r < free.size(); ++r) free[r] -= static_cast<std::int64_t>(r) != home ? 1 : 0;
  return true;
}

}  // namespace

std::vector<std::size_t> fastermoe_shadows(const ExpertColumns& columns, const std::vector<std::int64_t>& homes,
                                           std::vector<std::int64_t> free, const PlacementDevices& devices) {
  std::vector<std::int64_t> b(static_cast<std::size_t>(devices.ranks), 0);
  for (std::size_t e = 0; e < homes.size(); ++e) b[static_cast<std::size_t>(homes[e])] += columns.load(e);
  Seconds least = fastermoe_imbalanced_latency(*std::max_element(b.begin(), b.end()), devices);
  std::vector<std::size_t> shadows;
  for (const std::size_t e : heaviest_first(columns.loads())) {
    if (!take_slots(free, homes[e])) break;
    const auto t = columns.column(e);
    b[static_cast<std::size_t>(homes[e])] -= columns.load(e);
    for (std::size_t j = 0; j < b.size(); ++j) b[j] += t[j];
    const auto r = static_cast<std::int64_t>(shadows.size()) + 1;
    const Seconds latency = fastermoe_shadowed_latency(r, *std::max_element(b.begin(), b.end()), devices);
    if (latency >= least) break;
    least = latency;
    shadows.push_back(e);
  }
  return shadows;
}

namespace {

std::vector<std::int64_t> homes_of(const Placement& placement) {
  std::vector<std::int64_t> homes;
  for (const ExpertPlacement& place : placement.experts) homes.push_back(place.home.value());
  return homes;
}

class FasterMoe final : public PlacementStrategy {
 public:
  explicit FasterMoe(bool priced) : priced_(priced) {}
  std::string_view name() const override { return priced_ ? "fastermoe_priced" : "fastermoe"; }
  std::string_view summary() const override {
    return priced_ ? "dynamic shadowing, each step by the price of the whole layer"
                   : "dynamic shadowing by the paper's latencies [FasterMoE eq. 7-8, algorithm 1]";
  }
  bool replans() const override { return true; }
  bool has_blocking_transfers() const override { return true; }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    Placement placement = contiguous_placement(problem.experts(), problem.devices.ranks);
    std::vector<std::int64_t> free = slots_free(placement, problem.devices);
    const ExpertColumns columns(problem.counts);
    if (!priced_) {
      for (const std::size_t e : fastermoe_shadows(columns, homes_of(placement), free, problem.devices)) {
        shadow(placement.experts[e], free);
      }
      return {std::move(placement)};
    }
    Seconds least = problem.price_of(placement);
    for (const std::size_t e : heaviest_first(columns.loads())) {
      std::vector<std::int64_t> left = free;
      if (!take_slots(left, placement.experts[e].home.value())) break;
      Placement changed = placement;
      shadow(changed.experts[e], free);
      const Seconds price = problem.price_of(changed);
      if (price >= least) break;
      least = price;
      placement = std::move(changed);
    }
    return {std::move(placement)};
  }

 private:
  bool priced_;
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_fastermoe_placement(bool priced) { return std::make_unique<FasterMoe>(priced); }

}  // namespace moeplan::planner
