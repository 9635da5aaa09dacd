// A request for a plan: what the user names and fixes, as text and numbers, checked and turned into a planning problem
// and a search space; and its answer. The executable and the Python module plan with these functions, so that both take
// the same values and give the same errors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search_result.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// What is to be planned, under the names of the options of `moeplan plan`. Numbers of 0 and empty texts are not given:
/// the search decides.
struct PlanRequest {
  std::string cluster, model, workload = "default";  // names in configs/, or files
  std::int64_t world = 0;                            // ranks: the first N
  std::vector<std::string> overrides = {};           // cluster.a.b=c
  bool approximates = false;                         // a config.json of an unknown family is read as the nearest one
  std::string framework = {}, precision = {};
  std::string schedule = {}, all_to_all = {}, codec = {}, placement = "auto", layout = {}, recompute = {};
  std::int64_t tp = 0, cp = 0, ep = 0, esp = 0, dp = 0, pp = 0, vp = 0, micro_batch = 0, pipeline_degree = 0;
  std::int64_t dispatcher_sms = 0;
  std::optional<std::int64_t> sp = {}, zero = {}, redundant_experts = {};
  std::string pipeline = {};
  std::optional<bool> ep_overlap = {}, delay_wgrad = {};
  std::optional<std::uint64_t> seed = {};
  std::int64_t budget = SearchSpace{}.most_simulated;  // candidates to simulate
  int threads = 0;                                     // 0: one per core
};

/// The documents and values of a request. A Problem made of them refers to this.
struct PlanJob {
  PlanInputs documents;
  Inputs inputs;
  Cluster cluster;
  SearchSpace space;
  bool has_default_batch = false;  // the global batch is that of the default workload, or up to 131,072 ranks the least
                                   // multiple of them above it: any data-parallel size divides it
};

/// Loads the inputs and checks the request. Raises InputError that names the options as `moeplan plan` has them
/// ("--schedule"), first with everything that is wrong without the inputs.
[[nodiscard]] PlanJob load_job(const PlanRequest& request);

/// The answer to a request. predictions[i] belongs to result.ranked[i]; there are none if nothing is feasible.
struct PlanAnswer {
  SearchResult result;
  std::vector<Prediction> predictions;  // of the best candidate of each idea, at most as many as asked for
  /// With a framework: the fastest candidate of any schedule, all-to-all, codec and order on the degrees of the best
  /// one, if it is faster: what one would have to implement.
  std::optional<Evaluated> beyond;
};

/// Searches the job's space, and predicts the `top` best. `progress` receives (done, total) on the calling thread.
[[nodiscard]] PlanAnswer answer(const PlanJob& job, std::int64_t top,
                                const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// The best candidate of an answer that has one, as a plan.
[[nodiscard]] Plan best_plan(const PlanJob& job, const PlanAnswer& answer);

/// The memory of that candidate by pipeline stage.
[[nodiscard]] std::vector<MemoryUse> best_stage_memory(const PlanJob& job, const PlanAnswer& answer);

}  // namespace moeplan::planner
