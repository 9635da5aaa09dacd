#include "model/program/program.hpp"

#include <algorithm>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

void count_blocks(const Sequence& sequence, std::int64_t times, std::vector<std::int64_t>& counts) {
  for (const Step& step : sequence) {
    if (step.is_block()) {
      counts[step.block.index()] += times;
    } else {
      count_blocks(step.body, times * step.count, counts);
    }
  }
}

}  // namespace

bool Operation::computes_weight_gradient() const {
  const auto* gemm = std::get_if<Gemm>(&work);
  return gemm && gemm->form == Gemm::Form::TN && op_class != OpClass::Permute;  // a dense encoding has that form too
}

std::int64_t RoutingTable::num_experts() const {
  if (slots.empty()) return counts.experts();
  return std::count_if(slots.begin(), slots.end(), [](const auto& s) { return s && s->is_home; });
}

Rows Rows::fixed(std::int64_t rows) {
  Rows r;
  r.each = rows;
  return r;
}

Rows Rows::tokens(std::int64_t of_each_source, std::vector<RowStep> path) {
  Rows r;
  r.kind = Kind::Tokens;
  r.each = of_each_source;
  r.path = std::move(path);
  return r;
}

Rows Rows::per_expert(RoutingId routing, std::int64_t rows_each, Experts experts) {
  Rows r;
  r.kind = Kind::PerExpert;
  r.routing = routing;
  r.each = rows_each;
  r.experts = experts;
  return r;
}

Rows Rows::routed(RoutingId routing, Experts experts, std::vector<RowStep> path) {
  Rows r;
  r.kind = Kind::Routed;
  r.routing = routing;
  r.experts = experts;
  r.path = std::move(path);
  return r;
}

std::int64_t held_experts(const Program& program, RoutingId routing) {
  const RoutingTable& table = program.routings[routing.index()];
  return ceil_div(table.num_experts(), program.group(table.holders).size);
}

std::int64_t members_per_node(std::int64_t ranks_per_node, const GroupFamily& family) {
  if (family.stride >= ranks_per_node || ranks_per_node % family.stride != 0) return 1;
  const std::int64_t members = std::min(family.size, ranks_per_node / family.stride);
  return family.size % members == 0 ? members : 1;
}

std::int64_t members_per_node(const Program& program, const GroupFamily& family) {
  return members_per_node(program.ranks_per_node, family);
}

std::vector<std::int64_t> block_counts(const Program& program, std::size_t stage) {
  return block_counts(program.stages[stage], program.blocks.size());
}

std::vector<std::int64_t> block_counts(const Sequence& sequence, std::size_t blocks) {
  std::vector<std::int64_t> counts(blocks, 0);
  count_blocks(sequence, 1, counts);
  return counts;
}

}  // namespace moeplan
