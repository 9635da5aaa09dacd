// The schedule of DeepSpeed-MoE with expert sharding, as described by Parm ([Parm] sec. III-A, fig. 3a): every step
// waits for the preceding one. Without expert shards the ESP collectives vanish, and it is GShard's plain expert
// parallelism; with one expert-parallel rank it is data parallelism or, if the experts are sharded, their model
// parallelism. Backward: the gradient of AR_ESP's result is the same on all shards and needs no communication; each
// shard's input gradient is partial, and the reduce-scatter that mirrors AG_ESP sums these.
#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

class Baseline : public BaselineLayout {
 public:
  std::string_view name() const override { return "baseline"; }
  std::string_view summary() const override {
    return "DeepSpeed-MoE with expert sharding, every step after the one before [Parm fig. 3a]";
  }
  std::optional<Infeasibility> infeasibility(const Degrees&, const Candidate& candidate) const override {
    if (candidate.pipeline_degree == 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, candidate.pipeline_degree, "baseline has one chunk");
  }
  std::vector<std::int64_t> pipeline_degrees(const Degrees&, std::int64_t) const override { return {1}; }
};

}  // namespace

std::unique_ptr<Schedule> make_baseline_schedule() { return std::make_unique<Baseline>(); }

}  // namespace moeplan::planner
