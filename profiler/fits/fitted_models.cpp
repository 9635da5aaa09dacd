#include "profiler/fits/fitted_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moeplan::profiler {

namespace {

constexpr Bytes kLarge(1 << 20);

template <class IsUsed>
ModelError error_of(const CollectiveModels& models, std::span<const CollectiveSample> samples, IsUsed is_used) {
  ModelError out;
  for (const CollectiveSample& s : samples) {
    if (s.in_place || !is_used(s)) continue;
    const auto cost = collective_cost(models, s.collective, s.shape, s.n);
    if (!cost) continue;
    ++out.samples;
    out.mean += std::abs(std::log(cost->time() / s.time));
  }
  if (out.samples > 0) out.mean /= static_cast<double>(out.samples);
  return out;
}

/// The factor, from a quarter to four in steps of 1%, with the least error; 1 without samples.
template <class IsUsed>
double best_factor(const CollectiveModels& models, double LinkFactors::*factor,
                   std::span<const CollectiveSample> samples, IsUsed is_used) {
  constexpr int kSteps = 140;
  double best = 1, least = 0;
  bool has_any = false;
  for (int i = -kSteps; i <= kSteps; ++i) {
    LinkFactors factors;
    factors.*factor = std::pow(1.01, i);
    CollectiveModels scaled = models;
    scale(scaled, factors);
    const ModelError error = error_of(scaled, samples, is_used);
    if (error.samples == 0) return 1;
    if (has_any && error.mean >= least) continue;
    has_any = true;
    least = error.mean;
    best = factors.*factor;
  }
  return best;
}

Node rate(BytesPerSecond value) { return Node::text(fmt::format("{:.4g} GB/s", value.value() * 1e-9)); }

}  // namespace

FittedModels fitted_models(const Node& document, const LinkRates& links, std::span<const CollectiveSample> samples) {
  const auto is_inside = [](const CollectiveSample& s) { return s.shape.nodes == 1; };
  const auto is_between = [](const CollectiveSample& s) { return s.shape.nodes > 1; };
  CollectiveModels models = read_collective_models(document);
  FittedModels out{.document = document, .factors = {}, .inside = {}, .between = {}};
  const auto fit = [&](double LinkFactors::*factor, auto is_used) {
    out.factors.*factor = best_factor(models, factor, samples, is_used);
    LinkFactors step;
    step.*factor = out.factors.*factor;
    scale(models, step);
  };
  fit(&LinkFactors::intra_node, [&](const CollectiveSample& s) { return is_inside(s) && s.n >= kLarge; });
  double widest = 0;  // a pair of single GPUs does not fill its NICs
  for (const CollectiveSample& s : samples) {
    if (is_between(s) && s.n >= kLarge) widest = std::max(widest, s.shape.per_node());
  }
  fit(&LinkFactors::nic,
      [&](const CollectiveSample& s) { return is_between(s) && s.n >= kLarge && s.shape.per_node() == widest; });
  fit(&LinkFactors::latency, [&](const CollectiveSample& s) { return s.n < kLarge; });
  out.inside = error_of(models, samples, is_inside);
  out.between = error_of(models, samples, is_between);
  Node& measured_on = out.document.set("measured_on", Node::map());
  measured_on.set("intra_node_bandwidth", rate(links.intra_node / out.factors.intra_node));
  if (links.nic > BytesPerSecond(0)) measured_on.set("nic_bandwidth", rate(links.nic / out.factors.nic));
  if (out.factors.latency != 1) out.document.set("latency_factor", Node::number(out.factors.latency));
  return out;
}

}  // namespace moeplan::profiler
