#pragma once

#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan {

using namespace planner;

/// An all-to-all that sends first to the half of the ranks at the nearer positions, then to the others.
class Halves : public AllToAll {
 public:
  std::string_view name() const override { return "halves"; }
  std::string_view summary() const override { return "the nearer half of the ranks first, then the others"; }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.family.size % 2 == 0) return std::nullopt;
    return Infeasibility(Constraint::Multiple, group.family.size, 2, "halves needs an even number of ranks");
  }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const std::int64_t size = block.program().group(exchange.group).size, half = size / 2;
    move_rows(exchange, Stream::Inter, {.first = 0, .count = half, .of = size}, block);
    move_rows(exchange, Stream::Inter, {.first = half, .count = half, .of = size}, block);
  }
};

}  // namespace moeplan
