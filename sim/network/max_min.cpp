#include "sim/network/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "model/base/to_index.hpp"

namespace moeplan::sim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Progressive filling: the state of each resource, and which flows cross it.
class Filling {
 public:
  explicit Filling(const MaxMinProblem& problem) : p_(problem), rate_(p_.weight.size(), kInfinity) {
    const std::size_t resources = p_.capacity.size();
    flow_first_.assign(resources + 1, 0);
    for (const std::int32_t l : p_.resource) ++flow_first_[to_index(l) + 1];
    std::partial_sum(flow_first_.begin(), flow_first_.end(), flow_first_.begin());
    flows_.resize(p_.resource.size());
    std::vector<std::size_t> next(flow_first_.begin(), flow_first_.end() - 1);
    for (std::size_t f = 0; f < rate_.size(); ++f) {
      for (std::size_t k = to_index(p_.first[f]); k < to_index(p_.first[f + 1]); ++k) {
        flows_[next[to_index(p_.resource[k])]++] = {f, p_.weight[f] * p_.share[k]};
      }
    }
    level_.resize(resources);
    for (std::size_t l = 0; l < resources; ++l) level_[l] = level(l);
  }

  std::vector<double> rates() {
    while (true) {
      const auto least = std::min_element(level_.begin(), level_.end());
      if (least == level_.end() || *least == kInfinity) return std::move(rate_);
      stop_flows_of(static_cast<std::size_t>(least - level_.begin()));
    }
  }

 private:
  struct Crossing {
    std::size_t flow;
    double load;  // w_f a_fl
  };

  std::span<const Crossing> crossings(std::size_t l) const {
    return std::span(flows_).subspan(flow_first_[l], flow_first_[l + 1] - flow_first_[l]);
  }

  /// The common rate at which the flows that are still growing fill l; infinite if there are none. Recomputed each
  /// time, so that rounding errors do not accumulate.
  double level(std::size_t l) const {
    if (p_.capacity[l] == kInfinity) return kInfinity;
    double growing = 0;
    double taken = 0;
    for (const Crossing& c : crossings(l)) {
      if (rate_[c.flow] == kInfinity) {
        growing += c.load;
      } else {
        taken += c.load * rate_[c.flow];
      }
    }
    return growing > 0 ? std::max(0.0, p_.capacity[l] - taken) / growing : kInfinity;
  }

  void stop_flows_of(std::size_t bottleneck) {
    const double stopped = level_[bottleneck];
    touched_.clear();
    for (const Crossing& c : crossings(bottleneck)) {
      if (rate_[c.flow] != kInfinity) continue;
      rate_[c.flow] = stopped;
      for (std::size_t k = to_index(p_.first[c.flow]); k < to_index(p_.first[c.flow + 1]); ++k) {
        touched_.push_back(to_index(p_.resource[k]));
      }
    }
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const std::size_t l : touched_) level_[l] = std::max(stopped, level(l));
  }

  MaxMinProblem p_;
  std::vector<double> rate_;  // infinite while growing
  std::vector<std::size_t> flow_first_;
  std::vector<Crossing> flows_;  // by resource
  std::vector<double> level_;
  std::vector<std::size_t> touched_;
};

}  // namespace

std::vector<double> max_min_rates(const MaxMinProblem& problem) { return Filling(problem).rates(); }

double max_min_violation(const MaxMinProblem& problem, std::span<const double> rate) {
  std::vector<double> load(problem.capacity.size(), 0);
  std::vector<double> fastest(problem.capacity.size(), 0);
  const auto each_use = [&](std::size_t f, auto&& visit) {
    for (std::size_t k = to_index(problem.first[f]); k < to_index(problem.first[f + 1]); ++k) {
      if (problem.capacity[to_index(problem.resource[k])] != kInfinity)
        visit(to_index(problem.resource[k]), problem.share[k]);
    }
  };
  for (std::size_t f = 0; f < rate.size(); ++f) {
    each_use(f, [&](std::size_t l, double share) {
      load[l] += problem.weight[f] * share * rate[f];
      fastest[l] = std::max(fastest[l], rate[f]);
    });
  }
  double worst = 0;
  for (std::size_t l = 0; l < load.size(); ++l) {
    if (problem.capacity[l] != kInfinity) worst = std::max(worst, load[l] / problem.capacity[l] - 1);
  }
  for (std::size_t f = 0; f < rate.size(); ++f) {
    double nearest = rate[f] == kInfinity ? 0 : 1;
    each_use(f, [&](std::size_t l, double) {
      const double slack = 1 - load[l] / problem.capacity[l];
      const double behind = fastest[l] > 0 ? 1 - rate[f] / fastest[l] : 0;
      nearest = std::min(nearest, std::max(slack, behind));
    });
    worst = std::max(worst, nearest);
  }
  return worst;
}

}  // namespace moeplan::sim
