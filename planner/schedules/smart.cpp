// FasterMoE's smart schedule ([FasterMoE] sec. 4.2, fig. 7-8; MODELS section 5). The expert-parallel ranks form n
// groups of closely connected ranks; here these are neighbours, since consecutive ranks share a node. In step j each
// group i exchanges with the group j groups further on, and computes the received rows (S_ij, C_ij, R_ij).
//
//   compute        C_0, C_1 .. C_n-1
//   communication  S_0, S_1 .. S_n-1, R_0, R_1 .. R_n-1
//
// Experts shadowed on a rank take its own tokens alone, rows of step 0: where their weights are sent within the layer,
// step 0 is computed and sent back last, when these have arrived (MoeLayer::computes_copies_last; the paper computes
// the other rows of C_0 first).
//
// The fastest steps are first and last: S_0 stays inside the groups, and in step n - 1 the groups form a ring of
// neighbours. The paper sends to (i - j) mod n and receives from (i + j) mod n; here the direction is reversed, as in
// Communication, which by symmetry takes the same time. n is the pipeline degree; FasterMoE's code has groups of 4 by
// default (FMOE_FUSE_GRAN). The schedule has an exchange of its own, so no other all-to-all can be used.
#include <algorithm>

#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

constexpr std::int64_t kGroup = 4;        // ranks per group, FasterMoE's default
constexpr std::int64_t kMostSteps = 256;  // three operations each; assumed: enough

class Smart : public BaselineLayout {
 public:
  std::string_view name() const override { return "smart"; }
  std::string_view summary() const override {
    return "n groups of neighbours, one after the other sent to, computed and sent back [FasterMoE sec. 4.2]";
  }
  std::optional<Infeasibility> infeasibility(const Degrees& degrees, const Candidate& candidate) const override {
    const std::int64_t groups = candidate.pipeline_degree;
    if (degrees.ep % groups != 0)
      return Infeasibility(Constraint::Multiple, degrees.ep, groups, "smart needs groups of equal size");
    if (groups > kMostSteps)
      return Infeasibility(Constraint::Limit, kMostSteps, groups, "smart is planned with up to 256 groups");
    if (groups > 1 && candidate.all_to_all != "linear") return "smart has an exchange of its own";
    return std::nullopt;
  }
  std::string_view same_as(const Degrees&, const Candidate& candidate, Mode) const override {
    return candidate.pipeline_degree == 1 ? "baseline" : "";
  }
  /// Groups of 4 ranks, and groups of one node.
  std::vector<std::int64_t> pipeline_degrees(const Degrees& d, std::int64_t ranks_per_node) const override {
    std::vector<std::int64_t> out{1};
    for (const std::int64_t group : {members_per_node(ranks_per_node, {"", d.ep, d.esp}), kGroup}) {
      const std::int64_t n = d.ep / group;
      if (d.ep % group == 0 && n <= kMostSteps && std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  ExpertRound round(std::int64_t chunks) const override {
    ExpertRound out;
    out.order = opt_sche(chunks);
    out.by_groups = true;
    return out;
  }
};

}  // namespace

std::unique_ptr<Schedule> make_smart_schedule() { return std::make_unique<Smart>(); }

}  // namespace moeplan::planner
