// Tutel's dictionary ([Tutel] sec. 3.3): for a layer whose capacity changes from step to step, the best way to run it
// at each range of capacities, found beforehand.
//
//   floor(c / R) -> (r*, d*, a*)    c: rows that an expert takes of a source; R: window, 128
//
// r: adaptive parallelism; 0: every GPU has all experts' weights gathered and exchanges no tokens; r >= 1: an expert is
// cut over r GPUs, its shards gathered in groups of (W/E)/r (MODELS section 9). d: pipeline degree, 1, 2, 4 or 8. a:
// all-to-all, linear or 2DH. Tutel counts (log_{3/2} n + 2) 4 2 trials a key for n = W/E: for each d and a r = 0, r = n
// and a ternary search of what is between, on the ground that time is unimodal in r. The search here is Fibonacci's, in
// which a comparison costs one new trial, as that count supposes (thirds cost two); it needs no more than that.
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

struct TutelSetting {
  std::int64_t r = 0;
  std::int64_t pipeline_degree = 1;
  std::string all_to_all = "linear";
  bool operator==(const TutelSetting&) const = default;
};

/// How long a layer takes at capacity c; none where the setting cannot run, which is no trial.
using TutelPrice = std::function<std::optional<SimTime>(std::int64_t c, const TutelSetting&)>;

struct TutelEntry {
  std::int64_t key = 0;       // floor(c / R)
  std::int64_t capacity = 0;  // the largest c of the workload under this key: the one that is priced
  TutelSetting best;
  SimTime time;
  std::int64_t trials = 0;
  bool operator==(const TutelEntry&) const = default;
};

struct TutelOptions {
  std::int64_t window = 128;                                  // R
  std::vector<std::int64_t> pipeline_degrees = {1, 2, 4, 8};  // d
  std::vector<std::string> all_to_alls = {"linear", "2dh"};   // a
};

/// Entries by key, for capacities in any order. `adaptive`: the r to choose from, ascending and different. Keys at
/// which nothing can run are left out. Ties: the first d, then a, then the search's r.
[[nodiscard]] std::vector<TutelEntry> tutel_entries(std::span<const std::int64_t> capacities,
                                                    std::span<const std::int64_t> adaptive, const TutelPrice& price,
                                                    const TutelOptions& options = {});

/// (ceil(log_{3/2} n) + 2) 4 2 for n >= 1 candidates r >= 1: no key takes more trials.
[[nodiscard]] std::int64_t tutel_trials(std::int64_t n);

/// The least of n prices with at most k trials, for n < F(k + 2) (F(2) = 1, F(3) = 2): where they fall and then rise.
/// None where no price is.
[[nodiscard]] std::optional<std::size_t> unimodal_least(
    std::size_t n, const std::function<std::optional<SimTime>(std::size_t)>& price);

/// Of one kind of MoE layer of a plan.
struct TutelDictionary {
  std::int64_t window = 0;         // R
  std::int64_t experts = 0;        // E
  std::int64_t most_adaptive = 0;  // W/E: GPUs an expert
  std::int64_t most_trials = 0;    // by Tutel's count
  std::vector<TutelEntry> entries;
  bool operator==(const TutelDictionary&) const = default;
};

/// For each different kind of MoE layer, where the workload lists capacity_factors; else none. W: the ranks of a
/// pipeline stage; W/E: what E and W leave of them beside expert parallelism, the shards that an expert is cut into as
/// far as its hidden size allows. r: those of the table of schedules that divide the shards. A setting is priced as any
/// run of the layer is (priced_strategies()): lowered with Tutel's schedule of this r, and simulated forward, in
/// training backward too, with the plan's tensor and context parallelism, micro batch and codec.
[[nodiscard]] std::vector<TutelDictionary> tutel_dictionaries(const ModelSpec& model, const Workload& workload,
                                                              const Cluster& cluster, const Candidate& plan,
                                                              const TutelOptions& options = {});

}  // namespace moeplan::planner
