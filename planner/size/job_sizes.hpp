// The numbers of GPUs that a job can have on a cluster, and the search for the fewest that suffice.
//
// What a job reaches grows with its GPUs nearly, but not quite, steadily: the global batch is fixed, and a number of
// GPUs has only the divisions that it has. fewest_size() therefore tries sizes, and says what it left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/plan/inputs.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// Sizes that a job may have, in GPUs.
class JobSizes {
 public:
  /// `every` is sorted; `allows` excludes some of it, and is asked only where needed.
  JobSizes(std::vector<std::int64_t> every, std::function<bool(std::int64_t)> allows)
      : every_(std::move(every)), allows_(std::move(allows)) {}

  /// The least of at least so many GPUs, and the largest of at most so many; none if there is none.
  [[nodiscard]] std::optional<std::int64_t> at_least(double gpus) const;
  [[nodiscard]] std::optional<std::int64_t> at_most(double gpus) const;
  /// All from `least` to below `end`, sorted.
  [[nodiscard]] std::vector<std::int64_t> between(double least, std::int64_t end) const;
  /// How many from `least` to below `end` are not allowed.
  [[nodiscard]] std::int64_t excluded(double least, std::int64_t end) const;
  /// The least of all, allowed or not; 0 if there is none.
  [[nodiscard]] std::int64_t first() const { return every_.empty() ? 0 : every_.front(); }

 private:
  std::vector<std::int64_t> every_;
  std::function<bool(std::int64_t)> allows_;
};

/// The numbers of GPUs in whole nodes, or in what is used of them, up to `most`, sorted: a template with a fabric has
/// as many nodes as needed, other clusters have those that exist.
[[nodiscard]] std::vector<std::int64_t> whole_nodes(const ClusterSpec& cluster, std::int64_t most);

/// whole_nodes(), and of racks also powers of two up to `most_part`: of one rack, or 64 of the 72 GPUs of several.
[[nodiscard]] std::vector<std::int64_t> nodes_and_parts(const ClusterSpec& cluster, std::int64_t most,
                                                        std::int64_t most_part);

/// Whether so many GPUs can be divided into pipelines, shards and replicas that divide the model and the global batch.
/// Necessary for a plan; whether one fits in memory is another question.
[[nodiscard]] bool divides_job(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus);

/// Half of the GPUs of a rack, of which parts are sizes, too; 0 if whole nodes alone are: the nodes are no racks, or
/// the template says how many GPUs of each are used.
[[nodiscard]] std::int64_t largest_part(const ClusterSpec& cluster);

/// Those of nodes_and_parts(), with parts up to largest_part(), that divide the job. The arguments must outlive it.
[[nodiscard]] JobSizes job_sizes(const Inputs& inputs, const SearchSpace& space, std::int64_t most);

/// What came of a size.
struct SizeOutcome {
  bool suffices;
  std::optional<double> needed = {};  // GPUs that would suffice at this throughput per GPU; none without a plan
};

/// How much of a size fewest_size() does not look for fewer GPUs for: of 100 nodes two.
inline constexpr double kSizeResolution = 0.02;

struct FewestSize {
  std::optional<std::int64_t> gpus;  // the fewest found, but for kSizeResolution
  /// Smaller sizes that would suffice at the best throughput per GPU of all that were tried: allowed, but not tried for
  /// lack of tries, and not allowed.
  std::int64_t untried = 0, excluded = 0;
};

/// Tries sizes from `start` upwards: the next one is the least that would suffice at the throughput per GPU of the
/// last, or further away the more misses there were; without a plan, twice as many. Then those between the largest that
/// misses and the least that suffices are bisected down to kSizeResolution, and smaller ones are tried as far as
/// `most_tried` goes.
[[nodiscard]] FewestSize fewest_size(const JobSizes& sizes, double start, std::int64_t most_tried,
                                     const std::function<SizeOutcome(std::int64_t)>& outcome);

}  // namespace moeplan::planner
