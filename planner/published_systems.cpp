#include "planner/published_systems.hpp"

#include <array>

namespace moeplan {

namespace {

bool in_turn(const MoeRun& run) {
  return run.schedule == "baseline" && run.all_to_all == "linear" && run.codec == "none";
}

bool tutel(const MoeRun& run) {
  const bool its_exchange = run.all_to_all == "linear" || run.all_to_all == "2dh";
  const bool its_schedule = run.schedule == "baseline" || run.schedule == "pipelined" || run.schedule == "tutel";
  return its_exchange && its_schedule && run.codec == "none";
}

bool faster_moe(const MoeRun& run) {
  return in_turn(run) || (run.schedule == "smart" && run.all_to_all == "linear" && run.codec == "none");
}

bool sche_moe(const MoeRun& run) {
  const bool its_exchange =
      run.all_to_all == "linear" || run.all_to_all == "1dh" || run.all_to_all == "2dh" || run.all_to_all == "pipe";
  const bool one_codec = run.codec.find('/') == std::string::npos;
  return its_exchange && one_codec && (run.schedule == "baseline" || run.schedule == "opt_sche");
}

bool parm(const MoeRun& run) {
  return run.all_to_all == "linear" && run.pipeline_degree == 1 && run.codec == "none" &&
         (run.schedule == "baseline" || run.schedule.starts_with("parm_"));
}

}  // namespace

std::span<const PublishedSystem> published_systems() {
  static constexpr std::array<PublishedSystem, 5> kSystems{{
      {"Tutel", "pipelining of degree 1, 2, 4 or 8, linear or 2DH all-to-all, adaptive parallelism [Tutel sec. 4]",
       tutel},
      {"FasterMoE", "the smart schedule over groups of workers [FasterMoE sec. 4.2]", faster_moe},
      {"ScheMoE", "OptSche with its all-to-alls and a codec [ScheMoE sec. 3 to 5]", sche_moe},
      {"Parm", "baseline, S1 and S2 [Parm sec. III]", parm},
      {"Pro-Prophet", "plain expert parallelism, where loads are balanced [Pro-Prophet]", in_turn},
  }};
  return kSystems;
}

}  // namespace moeplan
