#include "cuda_runtime/interpreter.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "model/base/diagnostics.hpp"

namespace moeplan {

namespace {

std::vector<BlockId> blocks_of(const Program& program, RankId rank) {
  std::vector<BlockId> out;
  for (const Step& step : program.stages[program.stage_of(rank)]) {
    if (!step.is_block() || std::find(out.begin(), out.end(), step.block) != out.end()) {
      throw InputError(Diagnostic{{"execution"}, "", "a block that runs several times is not executed"});
    }
    out.push_back(step.block);
  }
  return out;
}

std::int64_t experts_of(const Program& program) {
  std::int64_t most = 0;
  for (const RoutingTable& table : program.routings) most = std::max(most, table.counts.experts());
  return most;
}

}  // namespace

Interpreter::Interpreter(const Program& program, RankId rank, const TokenChoices& choices, LayerFacts facts,
                         Backend& backend)
    : program_(program),
      rank_(rank),
      blocks_(blocks_of(program, rank)),
      layout_(program, rank, blocks_, choices),
      backend_(backend) {
  std::vector<BufferShape> shapes;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    shapes.push_back({layout_.rows(BufferId(b)), program.buffers[b].columns, program.buffers[b].dtype});
  }
  backend.allocate(shapes);
  const TokenIndex tokens(choices, experts_of(program));
  const ResolveContext context{program, rank, choices, tokens, layout_, facts};
  std::vector<std::size_t> last;
  for (const BlockId block : blocks_) {
    for (const Operation& operation : program.blocks[block.index()].operations) {
      backend.prepare(resolve_work(context, operation), program.blocks[block.index()].name + ": " + operation.name);
    }
    add(block, last);
  }
}

/// A rank enters a block once all its operations of the one before have ended: the first operation on each stream waits
/// for the last ones on all of them.
void Interpreter::add(BlockId block, std::vector<std::size_t>& last_of_streams) {
  const std::size_t first = steps_.size();
  std::array<std::optional<std::size_t>, kStreamNames.size()> last;
  for (const Operation& operation : program_.blocks[block.index()].operations) {
    auto& of_stream = last[static_cast<std::size_t>(operation.stream)];
    Step step{block, static_cast<std::int32_t>(steps_.size() - first), operation.stream, {}};
    if (!of_stream) step.after = last_of_streams;
    for (const std::int32_t a : operation.after) step.after.push_back(first + static_cast<std::size_t>(a));
    of_stream = steps_.size();
    steps_.push_back(std::move(step));
  }
  last_of_streams.clear();
  for (const auto& step : last) {
    if (step) last_of_streams.push_back(*step);
  }
}

std::vector<TimelineSpan> Interpreter::run() {
  backend_.begin();
  for (std::size_t i = 0; i < steps_.size(); ++i) backend_.enqueue(i, steps_[i].stream, steps_[i].after);
  const std::vector<OperationTime> times = backend_.finish();
  std::vector<TimelineSpan> spans;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    spans.push_back({rank_, steps_[i].block, steps_[i].operation, -1, SimTime::from_seconds(times[i].start),
                     SimTime::from_seconds(times[i].end)});
  }
  return spans;
}

BufferId Interpreter::buffer(const std::string& name) const {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].name == name) return BufferId(b);
  }
  assert(false && "a buffer that the Program does not have");
  return BufferId{};
}

}  // namespace moeplan
