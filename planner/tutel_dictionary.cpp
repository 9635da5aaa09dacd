#include "planner/tutel_dictionary.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/costs/memory.hpp"
#include "model/costs/parm.hpp"
#include "planner/block_builder.hpp"
#include "planner/lower.hpp"
#include "planner/obstacle.hpp"
#include "planner/plan.hpp"
#include "planner/schedule.hpp"

namespace moeplan {

namespace {

/// Whether a price is worse than another; one that there is not is worst.
bool is_less(const std::optional<SimTime>& a, const std::optional<SimTime>& b) { return a && (!b || *a < *b); }

/// One key's best setting, each priced once.
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
  std::vector<std::int64_t> rs_;  // those from 1 on
  std::int64_t trials_ = 0;
  TutelSetting best_;
  std::optional<SimTime> time_;
};

}  // namespace

std::optional<std::size_t> unimodal_least(std::size_t n,
                                          const std::function<std::optional<SimTime>(std::size_t)>& price) {
  // Points first .. first + span - 2 are in question, span a Fibonacci number; those from n on count as worst.
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

bool moves_weights(const Program& program) {
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      if (op.op_class == OpClass::WeightGather) return true;
    }
  }
  return false;
}

/// Prices of one kind of MoE layer.
class LayerPrice {
 public:
  LayerPrice(const ModelSpec& model, const LayerSpec& layer, const Workload& workload, const Cluster& cluster,
             const Candidate& plan, const std::string& schedule)
      : model_(model),
        layer_(layer),
        workload_(workload),
        cluster_(cluster),
        machines_(cluster),
        plan_(plan),
        schedule_(schedule),
        tokens_(plan.micro_batch * (workload.sequence_length / plan.degrees.cp)) {}

  const Moe& moe() const { return std::get<Moe>(layer_.ffn); }
  std::int64_t ranks() const { return plan_.degrees.ranks_per_stage(); }
  std::int64_t expert_parallel() const { return std::gcd(ranks(), moe().num_experts); }
  std::int64_t most_adaptive() const { return ranks() / expert_parallel(); }

  /// T = ceil(k f tokens / E).
  std::int64_t capacity(double factor) const { return static_cast<std::int64_t>(std::ceil(factor / factor_of_row())); }

  std::vector<std::int64_t> adaptive() const {
    std::vector<std::int64_t> out{0};
    for (std::int64_t r = 1; r <= most_adaptive(); ++r) {
      if (most_adaptive() % r == 0 && moe().expert.hidden_size % r == 0) out.push_back(r);
    }
    return out;
  }

  std::optional<SimTime> operator()(std::int64_t capacity, const TutelSetting& setting) {
    Workload workload = workload_;
    workload.capacity_factor = (static_cast<double>(capacity) - 0.5) * factor_of_row();  // rounds up to the capacity
    const std::optional<Candidate> c = candidate(workload, setting);
    if (!c) return std::nullopt;
    const Program program =
        lower_moe_layer(moe(), model_.hidden_size, tokens_, workload, *c, cluster_.ranks_per_node());
    SimTime time = simulated(program, machines_, /*keep_spans=*/false).makespan;
    if (!moves_weights(program)) time += SimTime::from_seconds(weights_time(*c));
    return time;
  }

 private:
  double factor_of_row() const {
    return static_cast<double>(moe().num_experts) /
           (static_cast<double>(moe().top_k) * static_cast<double>(tokens_ / plan_.degrees.tp));
  }

  std::optional<Candidate> candidate(const Workload& workload, const TutelSetting& setting) const {
    Candidate c = plan_;
    c.expert_places.clear();  // with a capacity factor experts are loaded evenly
    c.degrees.pp = c.virtual_stages = 1;
    c.degrees.ep = setting.r == 0 ? 1 : expert_parallel();
    c.degrees.esp = std::max<std::int64_t>(1, setting.r);
    c.degrees.edp = ranks() / c.degrees.ep / c.degrees.esp;
    c.pipeline_degree = setting.pipeline_degree;
    c.all_to_all = setting.all_to_all;
    c.order = kListedOrder;
    Workload of_one_stage = workload;
    of_one_stage.global_batch = c.degrees.dp * c.micro_batch;
    for (const std::string& schedule : {schedule_, std::string("baseline")}) {
      c.schedule = schedule;
      if (!obstacle(model_, of_one_stage, c, cluster_.ranks_per_node())) return c;
    }
    return std::nullopt;
  }

  Seconds weights_time(const Candidate& c) const {
    Program scratch;
    const Groups groups = add_groups(scratch, c.degrees, c.rank_order);
    const GroupFamily replicas = scratch.group(groups.edp);
    const Bytes weights(layer_parameters(model_, layer_, c.degrees).expert *
                        static_cast<double>(size_of(workload_.dtype)));
    const auto time = [&](Collective collective) {
      return group_collective_time(cluster_, ranks(), collective, replicas.size, replicas.stride, weights);
    };
    const Seconds gather = time(Collective::AllGather);
    return workload_.mode == Mode::Train ? gather + time(Collective::ReduceScatter) : gather;
  }

  const ModelSpec& model_;
  const LayerSpec& layer_;
  const Workload& workload_;
  const Cluster& cluster_;
  StageMachines machines_;
  const Candidate& plan_;
  const std::string& schedule_;
  std::int64_t tokens_;  // of a tensor-parallel group
};

}  // namespace

std::vector<TutelDictionary> tutel_dictionaries(const ModelSpec& model, const Workload& workload,
                                                const Cluster& cluster, const Candidate& plan,
                                                const std::string& schedule, const TutelOptions& options) {
  std::vector<TutelDictionary> out;
  if (workload.capacity_factors.empty()) return out;
  std::vector<Moe> seen;
  for (const LayerRun& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (!moe || std::find(seen.begin(), seen.end(), *moe) != seen.end()) continue;
      seen.push_back(*moe);
      LayerPrice price(model, layer, workload, cluster, plan, schedule);
      std::vector<std::int64_t> capacities;
      for (const double f : workload.capacity_factors) capacities.push_back(price.capacity(f));
      const std::vector<std::int64_t> adaptive = price.adaptive();
      out.push_back({.schedule = schedule,
                     .window = options.window,
                     .experts = moe->num_experts,
                     .most_adaptive = price.most_adaptive(),
                     .most_trials = tutel_trials(std::ssize(adaptive) - 1),
                     .entries = tutel_entries(capacities, adaptive, std::ref(price), options)});
    }
  }
  return out;
}

}  // namespace moeplan
