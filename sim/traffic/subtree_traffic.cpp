#include "sim/traffic/subtree_traffic.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace moeplan::sim {

namespace {

constexpr double kLoadRounding = 1e-12;  // relative: sums of a resource's loads in another order

std::span<const FlowUse> uses_of(const SubtreeTraffic& t, const SubtreeTraffic::Class& c) {
  return std::span(t.uses).subspan(c.first_use, c.uses);
}

/// Updates the maxima of the watched values with the current rates.
void watch(const SubtreeTraffic& t, const std::vector<double>& rate, std::vector<double>& sum, SubtreeResult& result) {
  sum.assign(static_cast<std::size_t>(t.sums), 0);
  for (std::size_t c = 0; c < rate.size(); ++c) sum[static_cast<std::size_t>(t.classes[c].sum)] += rate[c];
  for (std::size_t s = 0; s < sum.size(); ++s) result.most[s] = std::max(result.most[s], sum[s]);
  for (std::size_t i = 0; i < t.slots.size(); ++i) {
    double value = t.slots[i].factor * sum[static_cast<std::size_t>(t.slots[i].sum)];
    for (const std::int32_t c : t.slots[i].without) value -= rate[static_cast<std::size_t>(c)];
    result.slot_most[i] = std::max(result.slot_most[i], value);
  }
}

/// The narrowest resource on a class's path; among equal ones, the nearest to the destination.
std::size_t holder(const SubtreeTraffic& t, const SubtreeTraffic::Class& c) {
  const auto uses = uses_of(t, c);
  const auto room = [&](std::size_t u) { return t.capacity[uses[u].resource.index()] / uses[u].share; };
  std::size_t best = 0;
  for (std::size_t u = 1; u < uses.size(); ++u) best = room(u) < room(best) ? u : best;
  return uses[best].resource.index();
}

std::optional<std::vector<double>> constant_rates(const SubtreeTraffic& t) {
  const std::size_t n = t.capacity.size();
  std::vector<double> bytes(n, 0), load(n, 0), carried(n, 0), rate;
  std::vector<std::size_t> limited_by;
  for (const auto& c : t.classes) {
    const std::size_t l = holder(t, c);
    limited_by.push_back(l);
    if (load[l] > 0 && bytes[l] != c.bytes) return std::nullopt;
    bytes[l] = c.bytes;
    for (const FlowUse& use : uses_of(t, c)) load[l] += use.resource.index() == l ? c.weight * use.share : 0;
  }
  for (std::size_t i = 0; i < t.classes.size(); ++i) {
    rate.push_back(t.capacity[limited_by[i]] / load[limited_by[i]]);
    for (const FlowUse& use : uses_of(t, t.classes[i])) {
      carried[use.resource.index()] += t.classes[i].weight * use.share * rate[i];
    }
  }
  for (std::size_t l = 0; l < n; ++l) {
    if (carried[l] > t.capacity[l] * (1 + kLoadRounding)) return std::nullopt;
  }
  return rate;
}

}  // namespace

std::optional<SubtreeResult> simulate_subtree(const SubtreeTraffic& t, double& steps_left) {
  SubtreeResult result{.finish_s = std::vector<double>(t.classes.size()),
                       .most = std::vector<double>(static_cast<std::size_t>(t.sums), 0),
                       .slot_most = std::vector<double>(t.slots.size(), 0),
                       .is_constant = true};
  std::vector<double> sum;
  if (const auto rate = constant_rates(t)) {
    for (std::size_t c = 0; c < rate->size(); ++c) result.finish_s[c] = t.classes[c].bytes / (*rate)[c];
    watch(t, *rate, sum, result);
    return result;
  }
  result.is_constant = false;
  steps_left -= static_cast<double>(t.classes.size()) * static_cast<double>(t.classes.size());
  if (steps_left < 0) return std::nullopt;
  const auto engine = make_fast_network();
  for (const double c : t.capacity) engine->add_resource(c);
  for (const auto& c : t.classes) engine->start(uses_of(t, c), c.bytes, c.weight, 0);
  std::vector<FlowId> done;
  std::vector<double> rate(t.classes.size());
  while (const auto time = engine->next_completion()) {
    rate.assign(rate.size(), 0);
    for (const RunningFlow& f : engine->running()) rate[f.id.index()] = f.rate;
    watch(t, rate, sum, result);
    done.clear();
    engine->advance(*time, done);
    for (const FlowId f : done) result.finish_s[f.index()] = *time;
  }
  return result;
}

}  // namespace moeplan::sim
