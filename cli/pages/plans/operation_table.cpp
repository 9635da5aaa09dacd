#include "cli/pages/plans/operation_table.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

/// The rate that matters: FLOP/s of a product, bytes per second of anything else.
std::string rate_text(const OperationRow& row) {
  if (row.flops > 0) return human(Flops(row.flops) / row.each());
  return row.bytes > 0 ? human(Bytes(static_cast<double>(row.bytes)) / row.each()) : "";
}

}  // namespace

std::string operation_table(const Program& program, std::span<const OperationRow> rows, RankId rank) {
  std::string out = fmt::format("  Operations of rank {}\n\n  {:<36} {:<16} {:>7} {:>10} {:>10}  {}\n", rank.value(),
                                "", "class", "times", "each", "together", "rate");
  const Block* shown = nullptr;
  for (const OperationRow& row : rows) {
    const Block& block = program.blocks[row.block.index()];
    if (&block != shown) out += fmt::format("  {}\n", block.name);
    shown = &block;
    const Operation& op = program.operation(row.block, row.operation);
    out += fmt::format("    {:<34} {:<16} {:>7} {:>10} {:>10}  {}\n", op.name,
                       name_of<OpClass>(kOpClassNames, op.op_class), row.executions, human(row.each()), human(row.time),
                       rate_text(row));
  }
  return out;
}

planner::Json operation_rows(const Program& program, std::span<const OperationRow> rows) {
  planner::Json out = planner::Json::array();
  for (const OperationRow& row : rows) {
    const Operation& op = program.operation(row.block, row.operation);
    out.push_back({{"block", program.blocks[row.block.index()].name},
                   {"operation", op.name},
                   {"class", name_of<OpClass>(kOpClassNames, op.op_class)},
                   {"stream", name_of<Stream>(kStreamNames, op.stream)},
                   {"executions", row.executions},
                   {"time_s", row.time.value()},
                   {"flops", row.flops},
                   {"bytes", row.bytes}});
  }
  return out;
}

}  // namespace moeplan::cli
