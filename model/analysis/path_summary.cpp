#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "model/analysis/critical_path.hpp"
#include "model/costs/compute.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

namespace {

bool is_matrix_work(const Operation& operation) {
  return std::holds_alternative<Gemm>(operation.work) || std::holds_alternative<AttentionCore>(operation.work) ||
         std::holds_alternative<FusedProducts>(operation.work);
}

}  // namespace

std::string bottleneck_name(const Program& program, const Topology& topology, const PathSegment& segment) {
  switch (segment.limited_by) {
    case Bottleneck::TensorCores: return "compute: tensor cores";
    case Bottleneck::Memory: return "compute: HBM";
    case Bottleneck::Launch: return "kernel launches";
    case Bottleneck::Host: return "host CPU: launches of operations";
    case Bottleneck::HostMemory: return "link to the host's memory";
    case Bottleneck::Slowed: return "compute slowed by concurrent communication";
    case Bottleneck::SharedGpu: return "compute slowed by what shares its GPU";
    case Bottleneck::StartUp: return "start-up (alpha)";
    case Bottleneck::MeasuredRate: {
      const auto* communication = program.operation(segment.block, segment.operation).communication();
      return fmt::format("measured rate of {} (beta)",
                         communication ? name_of<Collective>(kCollectiveNames, communication->collective)
                                       : std::string_view("send_receive"));
    }
    case Bottleneck::Link: return "link " + topology.link_name(*segment.link);
    case Bottleneck::SlowedTransfer: return "communication slowed by concurrent computation";
    case Bottleneck::SharedLinks: return "links shared with other traffic";
    case Bottleneck::Waiting: return "waiting for slower ranks";
    case Bottleneck::Unrecorded: return "nothing recorded";
  }
  return "";
}

PathSummary summarise(const Program& program, const Cluster& cluster, const std::vector<PathSegment>& path) {
  PathSummary out;
  std::map<OpClass, PathClass> classes;
  std::map<std::string, SimTime> bottlenecks;
  std::map<std::tuple<BlockId, std::int32_t, std::string>, std::size_t> rows;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const PathSegment& s = path[i];
    const Operation& operation = program.operation(s.block, s.operation);
    const SimTime time = SimTime::scaled(s.duration, s.times);
    const std::string limited_by = bottleneck_name(program, cluster.topology, s);
    out.time += time;
    out.waited += SimTime::scaled(s.waited, s.times);
    bottlenecks[limited_by] += time;
    PathClass& c = classes[operation.op_class];
    c.op_class = operation.op_class;
    c.time += time;
    if (is_matrix_work(operation)) {
      const Dtype dtype = program.buffer(operation.reads.front().buffer).dtype;
      c.flops += s.flops * static_cast<double>(s.times);
      c.possible_flops += peak_rate(cluster.gpu, dtype).value() * time.seconds().value();
    }
    const auto [it, is_new] = rows.try_emplace({s.block, s.operation, limited_by}, out.rows.size());
    if (is_new) out.rows.push_back({s.block, s.operation, limited_by, {}});
    out.rows[it->second].time += time;
    out.ranks.push_back(s.rank);
    if (i > 0 && path[i - 1].rank != s.rank) out.handovers += std::min(s.times, path[i - 1].times);
  }
  for (const auto& [op_class, c] : classes) out.classes.push_back(c);
  out.bottlenecks.assign(bottlenecks.begin(), bottlenecks.end());
  std::stable_sort(out.classes.begin(), out.classes.end(),
                   [](const PathClass& a, const PathClass& b) { return a.time > b.time; });
  std::stable_sort(out.bottlenecks.begin(), out.bottlenecks.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::sort(out.ranks.begin(), out.ranks.end());
  out.ranks.erase(std::unique(out.ranks.begin(), out.ranks.end()), out.ranks.end());
  return out;
}

}  // namespace moeplan
