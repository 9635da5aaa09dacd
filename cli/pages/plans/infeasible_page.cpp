#include <fmt/format.h>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/plan_details.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

/// Other numbers of GPUs and another batch with which there is a plan.
std::string would_fit_lines(const std::optional<planner::WouldFit>& w) {
  if (!w) return "";
  std::string out;
  if (w->more)
    out +=
        labelled("GPUs", fmt::format("a plan fits on {0} GPUs, the fewest found above these: --world {0}", *w->more));
  if (!w->more && w->most_tried_gpus > 0)
    out += labelled("GPUs", fmt::format("no plan was found with more GPUs either, up to {}", w->most_tried_gpus));
  if (w->fewer)
    out += labelled("GPUs", fmt::format("a plan fits on {0} GPUs, the most below these: --world {0}", *w->fewer));
  if (w->global_batch)
    out += labelled(
        "batch", fmt::format("a plan fits with a global batch of {0}: -C workload.global_batch={0}", *w->global_batch));
  return out;
}

/// The candidate that came closest to fitting in memory, and the recomputation with which one fits.
std::string nearest_lines(const planner::SearchResult& result, const Cluster& cluster) {
  if (!result.nearest_miss) return "";
  const planner::NearestMiss& miss = *result.nearest_miss;
  std::string out = labelled("nearest", plan_text(miss.candidate));
  out += labelled("needs", memory_text(miss.memory, cluster));
  out += labelled("lacks", fmt::format("{} GiB per {}", gib(miss.memory.total() - cluster.memory_per_rank()),
                                       cluster.ranks_per_gpu > 1 ? "rank" : "GPU"));
  if (!result.fits_with) return out;
  return out + labelled("recompute", fmt::format("a plan fits with more recomputation: --recompute {} (or auto)",
                                                 name_of(*result.fits_with)));
}

}  // namespace

std::string infeasible_page(const planner::Inputs& inputs, const Cluster& cluster, const planner::SearchResult& result,
                            const std::optional<planner::WouldFit>& would_fit) {
  std::string out = fmt::format("no feasible plan among {} candidates\n", result.enumerated);
  out += nearest_lines(result, cluster) + would_fit_lines(would_fit) + '\n' + page_header(inputs, cluster);
  return out + "\n  Not feasible, by reason:\n" + rejections(result);
}

}  // namespace moeplan::cli
