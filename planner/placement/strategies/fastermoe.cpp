#include "planner/placement/strategies/fastermoe.hpp"

#include <algorithm>
#include <limits>

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

namespace {

constexpr double kBytesOfNumber = 4;  // "data_size" of the code

BytesPerSecond network_of_code(const PlacementDevices& d) { return d.nodes() > 1 ? d.nic_bandwidth : d.rank_bandwidth; }

}  // namespace

Seconds fastermoe_code_imbalanced_latency(std::int64_t largest, const PlacementDevices& d) {
  const auto tokens = static_cast<double>(largest);
  return kBytesOfNumber * 3 * tokens * d.token_time + 4 * tokens * d.token_bytes / network_of_code(d);
}

Seconds fastermoe_code_shadowed_latency(std::int64_t shadowed, std::int64_t largest, const PlacementDevices& d) {
  const auto w = static_cast<double>(d.ranks);
  return kBytesOfNumber * 3 * static_cast<double>(largest) * d.token_time +
         (1 + 2 * (w - 1) / w) * static_cast<double>(shadowed) * d.parameter_bytes / network_of_code(d);
}

bool fastermoe_sends_less(std::int64_t shadowed, std::int64_t before, const PlacementDevices& d) {
  return static_cast<double>(before) > tokens_of_parameters(shadowed, d);
}

bool fastermoe_saves_more(std::int64_t shadowed, std::int64_t before, std::int64_t after, const PlacementDevices& d) {
  const double added = tokens_of_parameters(shadowed, d) - static_cast<double>(before);
  if (added < 0) return false;
  return 3 * static_cast<double>(before - after) * d.token_time > 4 * added * (d.token_bytes / average_bandwidth(d));
}

std::int64_t fastermoe_search_launches(std::int64_t shadowed) {
  constexpr std::int64_t kPreparation = 8;  // sums over experts and sources (3), two copies, sort, largest load, result
  constexpr std::int64_t kImbalanced = 8;   // the terms of eq. 7
  constexpr std::int64_t kCandidate = 9;    // moved load (4), largest load twice, the terms of eq. 8 (2), comparison
  constexpr std::int64_t kChoice = 3;       // comparison with eq. 7, the shadowed experts' marks
  return kPreparation + kImbalanced + kCandidate * (shadowed + 1) + kChoice;
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
                                           std::vector<std::int64_t> free, const PlacementDevices& devices,
                                           ShadowLatency by) {
  const bool as_code = by == ShadowLatency::Code;
  std::vector<std::int64_t> b(static_cast<std::size_t>(devices.ranks), 0);
  for (std::size_t e = 0; e < homes.size(); ++e) b[static_cast<std::size_t>(homes[e])] += columns.load(e);
  const std::int64_t fullest = *std::max_element(b.begin(), b.end());
  const Seconds without =
      as_code ? fastermoe_code_imbalanced_latency(fullest, devices) : fastermoe_imbalanced_latency(fullest, devices);
  Seconds least = as_code ? Seconds(std::numeric_limits<double>::infinity()) : without;
  std::vector<std::size_t> shadows;
  for (const std::size_t e : heaviest_first(columns.loads())) {
    if (!take_slots(free, homes[e])) break;
    const auto t = columns.column(e);
    b[static_cast<std::size_t>(homes[e])] -= columns.load(e);
    for (std::size_t j = 0; j < b.size(); ++j) b[j] += t[j];
    const auto r = static_cast<std::int64_t>(shadows.size()) + 1;
    const std::int64_t most = *std::max_element(b.begin(), b.end());
    const Seconds latency =
        as_code ? fastermoe_code_shadowed_latency(r, most, devices) : fastermoe_shadowed_latency(r, most, devices);
    if (latency >= least) break;
    least = latency;
    shadows.push_back(e);
  }
  if (as_code && without <= least) shadows.clear();
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
  explicit FasterMoe(FasterMoeKind kind) : kind_(kind) {}
  std::string_view name() const override {
    return kind_ == FasterMoeKind::Paper  ? "fastermoe"
           : kind_ == FasterMoeKind::Code ? "fastermoe_code"
                                          : "fastermoe_priced";
  }
  std::string_view summary() const override {
    return kind_ == FasterMoeKind::Paper ? "dynamic shadowing by the paper's latencies [FasterMoE eq. 7-8, algorithm 1]"
           : kind_ == FasterMoeKind::Code ? "dynamic shadowing by the latencies of its published code"
                                          : "dynamic shadowing, each step by the price of the whole layer";
  }
  bool replans() const override { return true; }
  bool has_blocking_transfers() const override { return true; }
  std::int64_t search_launches(std::int64_t shadowed) const override { return fastermoe_search_launches(shadowed); }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    Placement placement = contiguous_placement(problem.experts(), problem.devices.ranks);
    std::vector<std::int64_t> free = slots_free(placement, problem.devices);
    const ExpertColumns columns(problem.counts);
    if (kind_ != FasterMoeKind::Priced) {
      const ShadowLatency by = kind_ == FasterMoeKind::Code ? ShadowLatency::Code : ShadowLatency::Paper;
      for (const std::size_t e : fastermoe_shadows(columns, homes_of(placement), free, problem.devices, by)) {
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
  FasterMoeKind kind_;
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_fastermoe_placement(FasterMoeKind kind) {
  return std::make_unique<FasterMoe>(kind);
}

}  // namespace moeplan::planner
