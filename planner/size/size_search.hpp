// How many GPUs of a cluster a job needs for a throughput, and what it reaches with those at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/search/search_result.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// A number of GPUs, with its fastest plan as search() finds it.
struct TriedSize {
  std::int64_t gpus = 0;
  std::optional<Evaluated> best = {};  // simulated; none: no plan
  Seconds global_bound{};              // SearchResult::global_bound, if the space wants it
  double tokens_per_s = 0;             // of all GPUs together
  double model_flops_utilization = 0;
  std::string no_plan = {};  // why there is none: "the nearest plan lacks 12.3 GiB per GPU"
};

struct Sizing {
  std::vector<TriedSize> tried = {};                                                    // by GPUs
  std::optional<std::int64_t> gpus = {};                                                // the answer, one of `tried`
  std::int64_t untried = 0, excluded = 0;                                               // as FewestSize's
  [[nodiscard]] const TriedSize* at(std::int64_t size) const;                           // null: not tried
  [[nodiscard]] const TriedSize* answer() const { return gpus ? at(*gpus) : nullptr; }  // null: none
};

struct SizeLimits {
  std::int64_t most_gpus = 65'536;
  std::int64_t most_tried = 10;      // sizes
  std::optional<double> start = {};  // GPUs to begin with; absent: those that would do at the peak of the GPU
};

/// Receives the size that is being tried, and (done, total) of its search.
using SizeProgress = std::function<void(std::int64_t gpus, std::int64_t done, std::int64_t total)>;

/// The fewest GPUs of job_sizes() that reach `tokens_per_s`, as fewest_size() finds them. The cluster has one rank a
/// GPU.
[[nodiscard]] Sizing fewest_gpus(const Inputs& inputs, const SearchSpace& space, double tokens_per_s,
                                 const SizeLimits& limits = {}, const SizeProgress& progress = {});

/// The fastest of the four largest numbers of GPUs of job_sizes() that are no more than `gpus`.
[[nodiscard]] Sizing fastest_of(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus,
                                const SizeProgress& progress = {});

/// Exactly so many GPUs.
[[nodiscard]] TriedSize tried_size(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus,
                                   const SizeProgress& progress = {});

}  // namespace moeplan::planner
