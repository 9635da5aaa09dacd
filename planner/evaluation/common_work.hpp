// The work that all strategies for a Program's MoE layers have in common: the basis of lower bounds over strategies
// that were not priced.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/costs/stage_clusters.hpp"
#include "model/program/program.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/problem.hpp"
#include "planner/lowering/lower.hpp"

namespace moeplan::planner {

/// Lower bounds on iterations that need no Program of the iteration. Of each unit of the model, one microbatch's passes
/// are lowered and priced without exchange, once for all candidates that have them in common. Thread-safe.
class CommonWork {
 public:
  /// `problem` must outlive this.
  explicit CommonWork(const Problem& problem);

  /// A lower bound on the iteration time of the candidate and of those that differ from it only in how rows travel: a
  /// stage computes all of its microbatches, after the first one reached it and before the last one returned from it;
  /// weights are gathered before the first one leaves a stage, gradients reduced after the last one came back to it.
  /// Without communication where stages have different links; of the compute stream and of the host, each alone, where
  /// passes of several microbatches overlap.
  [[nodiscard]] Seconds bound(const Candidate& candidate);

  /// A lower bound on the same iterations as bound() that many schedules have in common (Schedule::least_as_s1()); zero
  /// if theirs has none, or ranks differ.
  [[nodiscard]] Seconds shared_bound(const Candidate& candidate);

  /// A lower bound on the iteration time of the candidate alone, with its own exchange. Where stages have different
  /// links, exchanges of the stage with most work only; where passes of several microbatches overlap, of each stream
  /// alone, and bound() if stages have different links.
  [[nodiscard]] Seconds own_bound(const Candidate& candidate);

  /// A lower bound on the same iterations as bound() that is known sooner: for all candidates that have their attention
  /// and dense parts in common. Of MoE layers it has the experts' FLOPs of a mean load at the peak rate, and the
  /// launches.
  [[nodiscard]] Seconds rough_bound(const Candidate& candidate);

  /// A candidate without pipeline on as few ranks as its other degrees need, if ranks are equal however many there are
  /// and so many ranks have the same links wherever they begin, and if replicas are outside of what they exchange;
  /// otherwise the candidate.
  [[nodiscard]] Candidate with_links_on_fewest_ranks(Candidate stage);

 private:
  /// Seconds of the units before each unit of the model and, at the end, of all.
  struct Passes {
    std::vector<double> forward, backward;
  };
  /// The time of the units' operations on each stream alone.
  using Streams = std::array<Passes, kStreams>;
  /// The time of the units' operations on the GPU, the longest chain of each, and of the host that launches them.
  struct Work {
    Passes streams, host;
  };
  /// The time of the units: of their operations on the GPU or of the host, whichever takes longer, and of the host
  /// alone as far as that counts for what it launches besides; without passes if it does not.
  struct Times {
    Passes longest, host;
  };
  /// Parts of a unit's work, each of which is no more than its time: the compute stream's without the experts but for
  /// their mean load, the host's, and the longest of both and of the work without experts on all streams.
  struct Rough {
    Times computation, host, together;
  };
  /// What the replicas of parameters add on a stage: seconds of the weights that a first microbatch gathers on its way
  /// forward through the stage's first part, of the gradients that the last one's way back leaves to be reduced, and of
  /// the optimizer; of the host, what it launches for the first two.
  struct Ends {
    double gather, reduce, update, host_of_gather, host_of_reduce;
  };
  /// Which operations of a pass are priced.
  enum class Priced { All, WithoutCommunication, ComputeStream, Host };
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         const Schedule*, RankOrder, std::int64_t, bool, Recompute, Priced, const AllToAll*>;

  using OwnKey = std::tuple<Key, std::int64_t, std::string, std::int64_t>;  // with the chunks, codecs and stage
  using EndsKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, RankOrder,
                             std::int64_t, PipelineShape>;

  [[nodiscard]] static Key key_of(const Candidate& candidate, Priced operations);
  /// What `all` has under the key, or else `price()`, which is added to it.
  template <class Map, class Price>
  [[nodiscard]] const typename Map::mapped_type& known(Map& all, const typename Map::key_type& key,
                                                       const Price& price) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = all.find(key); it != all.end()) return it->second;
    }
    typename Map::mapped_type of_key = price();
    const std::lock_guard lock(mutex_);
    return all.emplace(key, std::move(of_key)).first->second;
  }
  [[nodiscard]] Priced priced_of(const Candidate& candidate);
  [[nodiscard]] Candidate on_fewest_ranks(Candidate stage) const;
  [[nodiscard]] Candidate representative(const Candidate& candidate) const;
  [[nodiscard]] const Times& passes(const Candidate& candidate, Priced operations);
  [[nodiscard]] static Candidate without_expert_degrees(const Candidate& candidate);
  [[nodiscard]] std::int64_t place_of(std::int64_t first, const Candidate& stage);
  /// On ranks and links from the rank `first` on.
  [[nodiscard]] const Work& work_without_experts(const Candidate& candidate, Priced operations, std::int64_t first = 0);
  [[nodiscard]] static Times together(Work work);
  [[nodiscard]] Passes with_experts(const Passes& dense, const Passes& experts, double counted_twice = 0) const;
  [[nodiscard]] Times with_experts(const Work& dense, const Work& experts, Recompute recompute) const;
  [[nodiscard]] double launched_twice(Recompute recompute) const;
  [[nodiscard]] const Work& experts_without_links(const Candidate& candidate, Priced operations,
                                                  bool has_weight_gradients);
  [[nodiscard]] LoweredPasses lowered(const ModelSpec& model, const Candidate& c,
                                      const std::optional<std::vector<std::size_t>>& units = {}) const;
  [[nodiscard]] const Times& own_passes(const Candidate& candidate, std::int64_t stage);
  [[nodiscard]] Streams streams_of(const LoweredPasses& all);
  [[nodiscard]] const Streams& own_streams(const Candidate& candidate);
  template <class SecondsOf>
  [[nodiscard]] static Passes passes_of(const LoweredPasses& lowered, const SecondsOf& seconds_of);
  [[nodiscard]] Work priced(LoweredPasses lowered, Priced operations, std::int64_t stage = 0);
  /// Of passes on the ranks of a stage.
  [[nodiscard]] Work priced_by_first_rank(LoweredPasses lowered, std::int64_t stage) const;
  [[nodiscard]] const Rough& rough(const Candidate& candidate);
  void add_mean_load(const Candidate& c, Passes& passes) const;
  [[nodiscard]] Passes launched(const LoweredPasses& all, const LoweredPasses& dense) const;
  [[nodiscard]] static Passes longer_of_each(const Passes& a, const Passes& b);
  /// The units of a part of a candidate's model among those of the whole model: from the first to before the last, and
  /// the head, which is the last of all.
  struct Units {
    std::size_t first, last;
    bool head;
  };
  [[nodiscard]] std::vector<Units> units_of_parts(const Candidate& candidate);
  /// The units of all parts of a stage.
  [[nodiscard]] static std::vector<std::size_t> units_of_stage(const std::vector<Units>& parts,
                                                               const Candidate& candidate, std::int64_t stage,
                                                               std::size_t units);
  /// The number of weight tensors that a rank updates, by unit of the model.
  [[nodiscard]] const std::vector<std::int64_t>& weight_tensors(Candidate stage);
  /// By stage; where stages have different links, of the first one only.
  [[nodiscard]] const std::vector<Ends>& ends(const Candidate& candidate);
  /// The time of one microbatch's pass through some units, from the seconds before each unit.
  [[nodiscard]] static double of_part(const Units& units, const std::vector<double>& before);
  /// The time of one microbatch's passes through all parts of a stage.
  [[nodiscard]] static double of_stage(const std::vector<Units>& units, const Passes& work, const Candidate& candidate,
                                       std::int64_t stage);
  [[nodiscard]] std::int64_t busiest_stage(const Passes& work, const Candidate& candidate);
  /// The longest of the candidate's stages, if one of them has passes of its own.
  [[nodiscard]] Seconds longest_stage(const Times& work, const Candidate& candidate, std::int64_t own_stage,
                                      const Times& of_own_stage);
  [[nodiscard]] Seconds longest_stage(const Times& work, const Candidate& candidate) {
    return longest_stage(work, candidate, 0, work);
  }

  const Problem& problem_;
  const ModelSpec without_experts_, experts_alone_;
  const std::vector<double> expert_flops_;
  const std::vector<std::size_t> moe_units_;  // units of the model that have experts
  const bool has_equal_ranks_;                // under any number of replicas and stages
  std::mutex mutex_;
  std::map<Key, Times> passes_;
  std::map<std::pair<Key, std::int64_t>, Work> without_experts_work_;
  std::map<std::pair<Key, bool>, Work> experts_work_;
  std::map<OwnKey, Times> own_passes_;
  std::map<OwnKey, Streams> own_streams_;
  std::map<Key, Streams> streams_without_experts_;
  std::map<Key, Rough> rough_;
  std::map<Key, std::vector<std::int64_t>> weight_tensors_;
  std::map<EndsKey, std::vector<Ends>> ends_;
  std::map<std::pair<std::int64_t, PipelineShape>, std::vector<Units>> units_of_parts_;  // by number of parts
};

}  // namespace moeplan::planner
