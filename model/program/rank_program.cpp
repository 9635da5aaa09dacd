#include "model/program/rank_program.hpp"

namespace moeplan {

namespace {

std::vector<RankSlice> resolved(const Program& program, const std::vector<Slice>& slices, RankId rank) {
  std::vector<RankSlice> out;
  for (const Slice& s : slices) {
    out.push_back({s.buffer, row_count(program, s.rows, rank), byte_count(program, s, rank)});
  }
  return out;
}

RankOperation resolved(const Program& program, const Operation& operation, std::int32_t index, RankId rank) {
  RankOperation out;
  out.operation = index;
  out.reads = resolved(program, operation.reads, rank);
  out.writes = resolved(program, operation.writes, rank);
  if (operation.computes()) {
    ComputeLoad load = compute_load(program, operation, rank);
    out.flops = load.flops;
    out.products = std::move(load.products);
    return out;
  }
  if (!operation.communication()) return out;
  for (const Flow& f : flows_from(program, operation, rank)) out.sends.push_back({f.to, f.bytes});
  for (const Flow& f : flows_to(program, operation, rank)) out.receives.push_back({f.from, f.bytes});
  return out;
}

}  // namespace

RankProgram for_rank(const Program& program, RankId rank) {
  RankProgram out{rank, {}};
  for (const Block& block : program.blocks) {
    std::vector<RankOperation>& operations = out.blocks.emplace_back();
    for (std::size_t i = 0; i < block.operations.size(); ++i) {
      operations.push_back(resolved(program, block.operations[i], static_cast<std::int32_t>(i), rank));
    }
  }
  return out;
}

}  // namespace moeplan
