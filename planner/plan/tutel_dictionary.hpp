// Tutel's dictionary ([Tutel] sec. 3.3): the best setting of an MoE layer for each range of capacities, computed in
// advance for a layer whose capacity changes from step to step.
//
//   floor(c / R) -> (r*, d*, a*)    c: rows that an expert takes from a source; R: window, 128
//
// r: adaptive parallelism. r = 0: every GPU gathers the weights of all experts and exchanges no tokens. r >= 1: an
// expert is sharded over r GPUs, its shards gathered in groups of (W/E)/r (MODELS section 9). d: pipeline degree, 1, 2,
// 4 or 8. a: all-to-all, linear or 2DH. Tutel counts (log_{3/2} n + 2) 4 2 trials per key for n = W/E: for each d and
// a, r = 0, r = n and a ternary search in between, assuming that time is unimodal in r. This implementation uses a
// Fibonacci search, in which a comparison costs one new trial, as Tutel's count supposes (a ternary search needs two);
// it never needs more trials than that count.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// One setting (r, d, a) of the layer.
struct TutelSetting {
  std::int64_t r = 0;
  std::int64_t pipeline_degree = 1;
  std::string all_to_all = "linear";
  bool operator==(const TutelSetting&) const = default;
};

/// The layer's time at capacity c; none if the setting cannot run, which does not count as a trial.
using TutelPrice = std::function<std::optional<SimTime>(std::int64_t c, const TutelSetting&)>;

/// The best setting for one key.
struct TutelEntry {
  std::int64_t key = 0;       // floor(c / R)
  std::int64_t capacity = 0;  // the largest c of the workload with this key, for which the settings are priced
  TutelSetting best;
  SimTime time;
  std::int64_t trials = 0;
  bool operator==(const TutelEntry&) const = default;
};

/// The search space of the dictionary.
struct TutelOptions {
  std::int64_t window = 128;                                  // R
  std::vector<std::int64_t> pipeline_degrees = {1, 2, 4, 8};  // d
  std::vector<std::string> all_to_alls = {"linear", "2dh"};   // a
};

/// The entries by key, for capacities in any order. `adaptive`: the candidates for r, distinct and ascending. Keys at
/// which no setting can run are omitted. Ties: the first d, then the first a, then the r that the search visits first.
[[nodiscard]] std::vector<TutelEntry> tutel_entries(std::span<const std::int64_t> capacities,
                                                    std::span<const std::int64_t> adaptive, const TutelPrice& price,
                                                    const TutelOptions& options = {});

/// Tutel's number of trials per key, (ceil(log_{3/2} n) + 2) 4 2 for n >= 1 candidates r >= 1: an upper bound on the
/// trials made here.
[[nodiscard]] std::int64_t tutel_trials(std::int64_t n);

/// The index of the least of n prices that first fall and then rise, found with at most k trials for n < F(k + 2) (F(2)
/// = 1, F(3) = 2). None if no index has a price.
[[nodiscard]] std::optional<std::size_t> unimodal_least(
    std::size_t n, const std::function<std::optional<SimTime>(std::size_t)>& price);

/// The dictionary of one kind of MoE layer in a plan.
struct TutelDictionary {
  std::int64_t window = 0;         // R
  std::int64_t experts = 0;        // E
  std::int64_t most_adaptive = 0;  // W/E: GPUs per expert
  std::int64_t most_trials = 0;    // per key, by Tutel's count
  std::vector<TutelEntry> entries;
  bool operator==(const TutelDictionary&) const = default;
};

/// One dictionary for each distinct kind of MoE layer if the workload lists capacity_factors; otherwise empty. W is the
/// number of ranks of a pipeline stage; W/E is the number of ranks that remain per expert after expert parallelism,
/// i.e. the shards that an expert is divided into, limited by its hidden size. The candidates for r are 0 and all
/// that divide the number of shards. A setting is priced like any strategy of the layer
/// (priced_strategies()): lowered with Tutel's schedule of this r and simulated, forward and in training backward, with
/// the plan's tensor and context parallelism, micro batch and codec.
[[nodiscard]] std::vector<TutelDictionary> tutel_dictionaries(const ModelSpec& model, const Workload& workload,
                                                              const Cluster& cluster, const Candidate& plan,
                                                              const TutelOptions& options = {});

}  // namespace moeplan::planner
