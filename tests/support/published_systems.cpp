#include "tests/support/published_systems.hpp"

#include <algorithm>
#include <array>

#include "model/costs/codec.hpp"

namespace moeplan {

using namespace planner;

namespace {

constexpr std::string_view kPlain[] = {"baseline"};
constexpr std::string_view kLinear[] = {"linear"};
constexpr std::string_view kTutelSchedules[] = {"baseline", "pipelined", "tutel_r0", "tutel_r1",
                                                "tutel_r2", "tutel_r4",  "tutel_r8"};
constexpr std::string_view kTutelAllToAlls[] = {"linear", "2dh"};
constexpr std::string_view kFasterMoeSchedules[] = {"baseline", "smart"};
constexpr std::string_view kScheMoeSchedules[] = {"baseline", "opt_sche"};
constexpr std::string_view kScheMoeAllToAlls[] = {"linear", "1dh", "2dh", "pipe"};
constexpr std::string_view kParmSchedules[] = {"baseline", "parm_s1", "parm_s2", "parm_s2_code", "parm_s2_aas"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool PublishedSystem::offers(const LayerStrategy& run) const {
  if (!is_among(run.schedule.name(), schedules) || !is_among(run.all_to_all.name(), all_to_alls)) return false;
  if (run.pipeline_degree > most_chunks) return false;
  return codecs == Codecs::SameBothWays ? run.codec.dispatch == run.codec.combine : run.codec == CodecPair{};
}

std::span<const PublishedSystem> published_systems() {
  static constexpr std::array<PublishedSystem, 5> kSystems{{
      {.name = "Tutel",
       .summary = "pipelining of degree 1, 2, 4 or 8, linear or 2DH all-to-all, adaptive parallelism [Tutel sec. 3, 4]",
       .schedules = kTutelSchedules,
       .all_to_alls = kTutelAllToAlls},
      {.name = "FasterMoE",
       .summary = "the smart schedule over groups of workers [FasterMoE sec. 4.2]",
       .schedules = kFasterMoeSchedules,
       .all_to_alls = kLinear},
      {.name = "ScheMoE",
       .summary = "OptSche with its all-to-alls and a codec [ScheMoE sec. 3 to 5]",
       .schedules = kScheMoeSchedules,
       .all_to_alls = kScheMoeAllToAlls,
       .codecs = PublishedSystem::Codecs::SameBothWays},
      {.name = "Parm",
       .summary = "baseline, S1 and S2 [Parm sec. III]",
       .schedules = kParmSchedules,
       .all_to_alls = kLinear,
       .most_chunks = 1},
      {.name = "Pro-Prophet",
       .summary = "plain expert parallelism, where loads are balanced [Pro-Prophet]",
       .schedules = kPlain,
       .all_to_alls = kLinear},
  }};
  return kSystems;
}

}  // namespace moeplan
