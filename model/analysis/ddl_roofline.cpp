#include "model/analysis/ddl_roofline.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/program/resolve.hpp"

namespace moeplan {

std::vector<double> flops_by_rank(const Program& program) {
  std::vector<double> flops(static_cast<std::size_t>(program.world_size), 0.0);
  std::vector<std::vector<std::int64_t>> counts;  // by stage and block
  for (std::size_t s = 0; s < program.stages.size(); ++s) counts.push_back(block_counts(program, s));
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    for (const Operation& op : program.blocks[b].operations) {
      if (!std::holds_alternative<Gemm>(op.work) && !std::holds_alternative<AttentionCore>(op.work) &&
          !std::holds_alternative<FusedProducts>(op.work))
        continue;
      for (std::size_t r = 0; r < flops.size(); ++r) {
        const std::int64_t runs = counts[program.stage_of(RankId(r))][b];
        if (runs > 0) flops[r] += static_cast<double>(runs) * compute_load(program, op, RankId(r)).flops;
      }
    }
  }
  return flops;
}

DdlRoofline ddl_roofline(const Program& program, SimTime makespan, const RankTime& binding) {
  const std::vector<double> flops = flops_by_rank(program);
  const Flops mean(std::accumulate(flops.begin(), flops.end(), 0.0) / static_cast<double>(flops.size()));
  DdlRoofline out;
  out.computation = binding.compute;
  out.communication = binding.communication;
  if (binding.compute > Seconds(0)) out.computing = Flops(flops[binding.rank.index()]) / binding.compute;
  if (makespan > SimTime()) out.average = mean / makespan.seconds();
  if (binding.communication == Seconds(0)) {
    out.ratio = std::numeric_limits<double>::infinity();
    out.ideal = out.semi_ideal = out.computing;
    return out;
  }
  out.ratio = binding.compute / binding.communication;
  out.ideal = out.computing * std::min(1.0, out.ratio);
  out.semi_ideal = out.computing * (out.ratio / (out.ratio + 1));
  return out;
}

}  // namespace moeplan
