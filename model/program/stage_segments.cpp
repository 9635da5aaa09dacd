#include "model/program/stage_segments.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

/// A sequence as a list of numbers, for comparison.
void describe(const Sequence& sequence, std::vector<std::int64_t>& out) {
  for (const Step& step : sequence) {
    if (step.is_block()) {
      out.push_back(step.block.value());
      continue;
    }
    out.insert(out.end(), {-1, step.count});
    describe(step.body, out);
    out.push_back(-2);
  }
}

BlockId first_block(const Step& step) { return step.is_block() ? step.block : first_block(step.body.front()); }

class Cutter {
 public:
  explicit Cutter(const Program& program) : program_(program) {
    for (const Block& block : program.blocks) {
      const bool begins = !block.operations.empty() && (std::holds_alternative<Receive>(block.operations[0].work) ||
                                                        std::holds_alternative<Wait>(block.operations[0].work));
      begins_.push_back(begins);
      sends_.push_back(std::any_of(block.operations.begin(), block.operations.end(),
                                   [](const Operation& op) { return std::holds_alternative<Send>(op.work); }));
    }
  }

  StageSegments run(const std::vector<Sequence>& stages) {
    for (const Sequence& stage : stages) {
      std::vector<std::size_t>& order = out_.order.emplace_back();
      Sequence steps;
      const auto cut = [&] {
        if (!steps.empty()) order.push_back(segment_of(steps));
        steps.clear();
      };
      for (const Step& step : stage) {
        if (begins_[first_block(step).index()]) cut();
        steps.push_back(step);
        if (step.is_block() && sends_[step.block.index()]) cut();
      }
      cut();
    }
    return std::move(out_);
  }

 private:
  std::size_t segment_of(const Sequence& steps) {
    std::vector<std::int64_t> key;
    describe(steps, key);
    const auto [it, is_new] = known_.try_emplace(std::move(key), out_.segments.size());
    if (is_new) {
      Segment& s = out_.segments.emplace_back();
      s.steps = steps;
      for (std::size_t i = 0; i < steps.size(); ++i) note_messages(steps[i], i == 0, /*is_top=*/true, s);
    }
    return it->second;
  }

  void note_messages(const Step& step, bool is_first, bool is_top, Segment& s) const {
    if (!step.is_block()) {
      for (std::size_t i = 0; i < step.body.size(); ++i) note_messages(step.body[i], is_first && i == 0, false, s);
      return;
    }
    const std::vector<Operation>& operations = program_.blocks[step.block.index()].operations;
    bool at_start = is_first;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& op = operations[i];
      const auto index = static_cast<std::int32_t>(i);
      const auto* send = std::get_if<Send>(&op.work);
      const auto* receive = std::get_if<Receive>(&op.work);
      if ((send || receive) && !is_top) throw std::logic_error("messages between stages stand in a repeat");
      if (receive) {
        if (!at_start) throw std::logic_error("a Receive does not stand at the start of a block");
        s.receives.push_back({receive->shift, receive->channel, 0, step.block, index});
        continue;
      }
      if (const auto* wait = std::get_if<Wait>(&op.work); wait && at_start) {
        s.waits = s.waits || wait->stream == Stream::Replicas;
        continue;
      }
      at_start = false;
      if (!send) continue;
      s.sends.push_back(
          {send->shift, send->channel, byte_count(program_, op.reads.front(), RankId(0)), step.block, index});
    }
  }

  const Program& program_;
  std::vector<bool> begins_;  // by block: whether a segment begins at it
  std::vector<bool> sends_;   // by block
  std::map<std::vector<std::int64_t>, std::size_t> known_;
  StageSegments out_;
};

}  // namespace

std::size_t StageSegments::shifted(std::size_t stage, std::int64_t shift) const {
  const auto count = static_cast<std::int64_t>(order.size());
  return static_cast<std::size_t>(((static_cast<std::int64_t>(stage) + shift) % count + count) % count);
}

StageSegments stage_segments(const Program& program, const std::vector<Sequence>& stages) {
  return Cutter(program).run(stages);
}

Program stage_program(const Program& program) {
  Program local;
  local.world_size = program.ranks_per_stage();
  local.ranks_per_node = program.ranks_per_node;
  local.has_persistent_products = program.has_persistent_products;
  local.fills_waves = program.fills_waves;
  local.groups = program.groups;
  for (GroupFamily& g : local.groups) {
    if (g.size > 1 && g.size * g.stride > local.world_size) g = {g.name, 1, 1};
  }
  local.routings = program.routings;
  local.buffers = program.buffers;
  local.blocks = program.blocks;
  for (Block& block : local.blocks) {
    for (Operation& op : block.operations) {
      if (std::holds_alternative<Receive>(op.work)) op.work = Wait{Stream::Pipeline};
    }
  }
  return local;
}

}  // namespace moeplan
