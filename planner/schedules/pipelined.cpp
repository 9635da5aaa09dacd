// Plain pipelining of degree d: the capacity is divided into d chunks, which pass through all-to-all, experts and
// all-to-all one after another ([Tutel] sec. 3.2, fig. 9; PipeMoE, Shi et al. 2023).
//
//   compute        E^1 .. E^d
//   communication  A1^1 .. A1^d, A2^1 .. A2^d
//
// Each step starts for all chunks before the next step does, as in Tutel's released code (all-to-all of all chunks,
// then the experts chunk by chunk, then the second all-to-all), which has no codecs. With codecs this order gives C1^1
// .. C1^d, D1^1 .. D1^d, E^1 .. E^d, C2^1 .. C2^d, D2^1 .. D2^d on the compute stream, on which OptSche improves.
#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

class Pipelined : public BaselineLayout {
 public:
  std::string_view name() const override { return "pipelined"; }
  std::string_view summary() const override {
    return "d chunks, each step for all of them before the next [Tutel sec. 3.2, PipeMoE]";
  }
  std::optional<Infeasibility> infeasibility(const Degrees&, const Candidate&) const override { return std::nullopt; }
  std::string_view same_as(const Degrees&, const Candidate& candidate, Mode) const override {
    return candidate.pipeline_degree == 1 ? "baseline" : "";
  }
};

}  // namespace

std::unique_ptr<Schedule> make_pipelined_schedule() { return std::make_unique<Pipelined>(); }

}  // namespace moeplan::planner
