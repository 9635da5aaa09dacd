// All-to-alls in which every rank sends to every other rank directly.
//
//   linear    all pairs at once
//   pairwise  step s exchanges with the ranks s positions before and after (MODELS section 2), all steps in one launch
//   pipe      Pipe-A2A ([ScheMoE] sec. 5, eq. (16)-(18)): peers in the node on one stream, peers in other nodes on
//             another, so that it takes max(m t1, (P - m) t2) instead of m t1 + (P - m) t2
#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

class Linear : public AllToAll {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view summary() const override { return "every pair of ranks at once"; }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup&) const override { return std::nullopt; }
  bool is_direct() const override { return true; }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    move_rows(exchange, Stream::Inter, {}, block);
  }
};

class Pairwise : public AllToAll {
 public:
  std::string_view name() const override { return "pairwise"; }
  std::string_view summary() const override {
    return "step s exchanges with the ranks s before and behind, one step after the other";
  }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup&) const override { return std::nullopt; }
  std::optional<Infeasibility> not_planned_with(const ExchangeGroup& group) const override {
    if (group.family.size <= 2) return "pairwise between two ranks is linear";
    if (group.family.size <= kMostSteps) return std::nullopt;
    return Infeasibility(Constraint::Limit, kMostSteps, group.family.size, "pairwise is planned with up to 256 steps");
  }
  bool is_direct() const override { return true; }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const std::int64_t size = block.program().group(exchange.group).size;
    if (size == 1) return move_rows(exchange, Stream::Inter, {}, block);
    move_rows(exchange, Stream::Inter, {.first = 0, .count = 2, .of = size}, block);  // includes the rank's own rows
    for (std::int64_t s = 2; s < size; ++s) {
      move_rows(exchange, Stream::Inter, {.first = s, .count = 1, .of = size, .continues = true}, block);
    }
  }

 private:
  static constexpr std::int64_t kMostSteps = 256;  // each is an operation of its own
};

class Pipe : public AllToAll {
 public:
  std::string_view name() const override { return "pipe"; }
  std::string_view summary() const override {
    return "Pipe-A2A: peers of the node on one stream, the others on another [ScheMoE sec. 5]";
  }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.per_node > 1 && group.nodes() > 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, 2, "pipe needs several nodes with several ranks each");
  }
  bool is_direct() const override { return true; }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const std::int64_t nodes = exchange_group(block.program(), exchange.group, 1).nodes();
    const std::vector<std::int32_t> ready = block.last();
    move_rows(exchange, Stream::Intra, {.first = 0, .count = 1, .of = nodes}, block);
    std::vector<std::int32_t> both = block.last();
    block.continue_after(ready);
    move_rows(exchange, Stream::Inter, {.first = 1, .count = nodes - 1, .of = nodes}, block);
    both.push_back(block.last().front());
    block.continue_after(both);
  }
};

}  // namespace

std::unique_ptr<AllToAll> make_linear_all_to_all() { return std::make_unique<Linear>(); }
std::unique_ptr<AllToAll> make_pairwise_all_to_all() { return std::make_unique<Pairwise>(); }
std::unique_ptr<AllToAll> make_pipe_all_to_all() { return std::make_unique<Pipe>(); }

}  // namespace moeplan::planner
