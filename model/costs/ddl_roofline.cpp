#include "model/costs/ddl_roofline.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/program/resolve.hpp"

namespace moeplan {

std::vector<double> flops_by_rank(const Program& program) {
  std::vector<double> flops(static_cast<std::size_t>(program.world_size), 0.0);
  const std::vector<std::int64_t> counts = block_counts(program);
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    for (const Operation& op : program.blocks[b].operations) {
      if (!std::holds_alternative<Gemm>(op.work) && !std::holds_alternative<AttentionCore>(op.work)) continue;
      for (std::size_t r = 0; r < flops.size(); ++r) {
        flops[r] += static_cast<double>(counts[b]) * compute_load(program, op, RankId(r)).flops;
      }
    }
  }
  return flops;
}

DdlRoofline ddl_roofline(const Program& program, SimTime makespan, const RankTime& slowest) {
  const std::vector<double> flops = flops_by_rank(program);
  const Flops mean(std::accumulate(flops.begin(), flops.end(), 0.0) / static_cast<double>(flops.size()));
  DdlRoofline out;
  out.computation = slowest.compute;
  out.communication = slowest.communication;
  if (slowest.compute > Seconds(0)) out.computing = Flops(flops[slowest.rank.index()]) / slowest.compute;
  if (makespan > SimTime()) out.average = mean / makespan.seconds();
  if (slowest.communication == Seconds(0)) {
    out.ratio = std::numeric_limits<double>::infinity();
    out.ideal = out.semi_ideal = out.computing;
    return out;
  }
  out.ratio = slowest.compute / slowest.communication;
  out.ideal = out.computing * std::min(1.0, out.ratio);
  out.semi_ideal = out.computing * (out.ratio / (out.ratio + 1));
  return out;
}

}  // namespace moeplan
