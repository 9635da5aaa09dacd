#include "model/analysis/operation_list.hpp"

#include <map>

#include "model/program/resolve.hpp"

namespace moeplan {

std::vector<OperationRow> operation_list(const Program& program, const Timeline& timeline, RankId rank) {
  const RankId recorded = timeline.recorded(rank);
  std::map<std::pair<BlockId, std::int32_t>, OperationRow> rows;
  for (const TimelineSpan& span : timeline.spans) {
    if (span.rank != recorded || span.end == span.start) continue;
    OperationRow& row = rows[{span.block, span.operation}];
    const std::int64_t times = timeline.occurrences(span);
    row.executions += times;
    row.time += static_cast<double>(times) * (span.end - span.start).seconds();
  }
  std::vector<OperationRow> out;
  for (auto& [key, row] : rows) {
    row.block = key.first;
    row.operation = key.second;
    const Operation& op = program.operation(row.block, row.operation);
    if (op.computes()) {
      const ComputeLoad load = compute_load(program, op, rank);
      row.flops = load.flops;
      row.bytes = load.bytes;
    } else if (op.communication()) {
      for (const Flow& flow : flows_from(program, op, rank)) row.bytes += flow.bytes;
    } else if (std::holds_alternative<Send>(op.work)) {
      row.bytes = byte_count(program, op.reads.front(), rank);
    }
    out.push_back(row);
  }
  return out;
}

}  // namespace moeplan
