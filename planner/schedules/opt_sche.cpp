#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

class OptSche : public BaselineLayout {
 public:
  std::string_view name() const override { return "opt_sche"; }
  std::string_view summary() const override {
    return "OptSche: the best order of r chunks where dispatch and combine take as long [ScheMoE sec. 4]";
  }
  std::optional<Infeasibility> infeasibility(const Degrees&, const Candidate&) const override { return std::nullopt; }
  std::string_view same_as(const Degrees&, const Candidate& candidate, Mode) const override {
    if (candidate.pipeline_degree == 1) return "baseline";
    return candidate.codec == CodecPair{} ? "pipelined" : "";
  }

 private:
  ExpertRound round(std::int64_t chunks) const override {
    ExpertRound out;
    out.order = opt_sche(chunks);
    return out;
  }
};

}  // namespace

std::unique_ptr<Schedule> make_opt_sche_schedule() { return std::make_unique<OptSche>(); }

}  // namespace moeplan::planner
