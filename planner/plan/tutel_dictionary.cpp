#include "planner/plan/tutel_dictionary.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/search/layer_search.hpp"

namespace moeplan::planner {

namespace {

/// Whether a price is lower than another; a missing price counts as the highest.
bool is_less(const std::optional<SimTime>& a, const std::optional<SimTime>& b) { return a && (!b || *a < *b); }

/// The search for one key's best setting, which prices each setting once.
class KeySearch {
 public:
  KeySearch(std::int64_t capacity, std::span<const std::int64_t> adaptive, const TutelPrice& price)
      : capacity_(capacity), price_(price) {
    for (const std::int64_t r : adaptive) (r == 0 ? has_zero_ = true : (rs_.push_back(r), false));
  }

  void of(std::int64_t pipeline_degree, const std::string& all_to_all) {
    std::map<std::int64_t, std::optional<SimTime>> known;
    const auto price = [&](std::int64_t r) {
      const auto it = known.find(r);
      return it != known.end() ? it->second : known[r] = trial({r, pipeline_degree, all_to_all});
    };
    if (has_zero_) (void)price(0);
    if (rs_.empty()) return;
    (void)price(rs_.back());
    (void)unimodal_least(rs_.size() - 1, [&](std::size_t i) { return price(rs_[i]); });
  }

  std::optional<TutelEntry> result(std::int64_t window) const {
    if (!time_) return std::nullopt;
    return TutelEntry{capacity_ / window, capacity_, best_, *time_, trials_};
  }

 private:
  std::optional<SimTime> trial(const TutelSetting& setting) {
    const std::optional<SimTime> time = price_(capacity_, setting);
    if (time) ++trials_;
    if (is_less(time, time_)) {
      time_ = time;
      best_ = setting;
    }
    return time;
  }

  std::int64_t capacity_;
  const TutelPrice& price_;
  bool has_zero_ = false;
  std::vector<std::int64_t> rs_;  // candidates for r from 1 on
  std::int64_t trials_ = 0;
  TutelSetting best_;
  std::optional<SimTime> time_;
};

}  // namespace

std::optional<std::size_t> unimodal_least(std::size_t n,
                                          const std::function<std::optional<SimTime>(std::size_t)>& price) {
  // Invariant: the candidates are first .. first + span - 2, with span a Fibonacci number; indices from n on count as
  // most expensive.
  std::size_t smaller = 1, span = 2, first = 0;
  while (span - 1 < n) span += std::exchange(smaller, span);
  std::map<std::size_t, std::optional<SimTime>> known;
  const auto at = [&](std::size_t i) {
    const auto it = known.find(i);
    return it != known.end() ? it->second : known[i] = price(i);
  };
  while (span > 2) {
    const std::size_t left = first + (span - smaller) - 1, right = first + smaller - 1;
    if (right < n && is_less(at(right), at(left))) first = left + 1;
    const std::size_t rest = span - smaller;
    span = std::exchange(smaller, rest);
  }
  return first < n && at(first) ? std::optional(first) : std::nullopt;
}

std::vector<TutelEntry> tutel_entries(std::span<const std::int64_t> capacities, std::span<const std::int64_t> adaptive,
                                      const TutelPrice& price, const TutelOptions& options) {
  std::map<std::int64_t, std::int64_t> largest;  // by key
  for (const std::int64_t c : capacities) {
    std::int64_t& most = largest[c / options.window];
    most = std::max(most, c);
  }
  std::vector<TutelEntry> out;
  for (const auto& [key, capacity] : largest) {
    KeySearch search(capacity, adaptive, price);
    for (const std::int64_t d : options.pipeline_degrees) {
      for (const std::string& a : options.all_to_alls) search.of(d, a);
    }
    if (const auto entry = search.result(options.window)) out.push_back(*entry);
  }
  return out;
}

std::int64_t tutel_trials(std::int64_t n) {
  assert(n >= 1 && "an expert has at least one GPU");
  std::int64_t thirds = 0;  // ceil(log_{3/2} n)
  for (double reached = 1; reached < static_cast<double>(n); reached *= 1.5) ++thirds;
  return (thirds + 2) * 4 * 2;
}

namespace {

/// The prices of settings for one kind of MoE layer.
class LayerPrice {
 public:
  LayerPrice(const ModelSpec& model, const Moe& moe, const Workload& workload, const Cluster& cluster,
             const Candidate& plan)
      : hidden_size_(moe.row_columns(model.hidden_size)),
        moe_(moe),
        workload_(workload),
        cluster_(cluster),
        plan_(plan),
        ranks_(plan.degrees.ranks_per_stage()),
        expert_parallel_(std::gcd(ranks_, moe.num_experts)),
        shards_(std::gcd(most_adaptive(), moe.expert.hidden_size)),
        tokens_(plan.micro_batch * (workload.sequence_length / plan.degrees.cp)) {}

  std::int64_t most_adaptive() const { return ranks_ / expert_parallel_; }

  /// The capacity T = ceil(k f tokens / E).
  std::int64_t capacity(double factor) const { return static_cast<std::int64_t>(std::ceil(factor / factor_of_row())); }

  /// The candidates for r, ascending.
  std::vector<std::int64_t> adaptive() const {
    std::vector<std::int64_t> out;
    for (std::int64_t r = 0; r <= std::min(shards_, kMostTutelR); ++r) {
      if (r == 0 || shards_ % r == 0) out.push_back(r);
    }
    return out;
  }

  std::optional<SimTime> operator()(std::int64_t capacity, const TutelSetting& setting) const {
    Workload workload = workload_;
    workload.capacity_factor = (static_cast<double>(capacity) - 0.5) * factor_of_row();  // rounds up to the capacity
    const Candidate stage = one_stage();
    LayerStrategy run{tutel_schedule(setting.r), setting.all_to_all, setting.pipeline_degree};
    if (setting.r > 0) run.codec = plan_.codec;  // with r = 0 no rows are exchanged
    if (layer_infeasibility(hidden_size_, workload, run.in(stage), cluster_.ranks_per_node())) return std::nullopt;
    return priced_strategies({run}, moe_, hidden_size_, tokens_, workload, stage, cluster_, /*threads=*/1).front().time;
  }

 private:
  double factor_of_row() const {
    return static_cast<double>(moe_.num_experts) /
           (static_cast<double>(moe_.top_k) * static_cast<double>(tokens_ / plan_.degrees.tp));
  }

  /// One stage of the plan, with each expert sharded over all ranks that expert parallelism leaves to it.
  Candidate one_stage() const {
    Candidate c = stage_alone(plan_);
    c.runs.clear();
    c.expert_places.clear();  // with a capacity factor, experts are loaded evenly
    c.rank_order = RankOrder::Megatron;
    c.order = OperationOrder::Listed;
    c.degrees.ep = expert_parallel_;
    c.degrees.esp = shards_;
    c.degrees.edp = most_adaptive() / shards_;
    return c;
  }

  std::int64_t hidden_size_;
  const Moe& moe_;
  const Workload& workload_;
  const Cluster& cluster_;
  const Candidate& plan_;
  std::int64_t ranks_;
  std::int64_t expert_parallel_;
  std::int64_t shards_;
  std::int64_t tokens_;  // per tensor-parallel group
};

}  // namespace

std::vector<TutelDictionary> tutel_dictionaries(const ModelSpec& model, const Workload& workload,
                                                const Cluster& cluster, const Candidate& plan,
                                                const TutelOptions& options) {
  std::vector<TutelDictionary> out;
  if (workload.capacity_factors.empty()) return out;
  std::vector<Moe> seen;
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (!moe || std::find(seen.begin(), seen.end(), *moe) != seen.end()) continue;
      seen.push_back(*moe);
      LayerPrice price(model, *moe, workload, cluster, plan);
      std::vector<std::int64_t> capacities;
      for (const double f : workload.capacity_factors) capacities.push_back(price.capacity(f));
      const std::vector<std::int64_t> adaptive = price.adaptive();
      out.push_back({.window = options.window,
                     .experts = moe->num_experts,
                     .most_adaptive = price.most_adaptive(),
                     .most_trials = tutel_trials(std::ssize(adaptive) - 1),
                     .entries = tutel_entries(capacities, adaptive, std::ref(price), options)});
    }
  }
  return out;
}

}  // namespace moeplan::planner
