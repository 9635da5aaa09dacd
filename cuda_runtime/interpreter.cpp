#include "cuda_runtime/interpreter.hpp"

#include <algorithm>
#include <cassert>

#include "model/base/diagnostics.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

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
  for (const RoutingTable& table : program.routings) most = std::max(most, table.num_experts());
  return most;
}

std::vector<Work> works_of(const ResolveContext& context, const Operation& operation) {
  // A wait is an empty operation with dependencies.
  if (std::holds_alternative<Wait>(operation.work)) return {CopyRowsWork{}};
  if (!is_to_copies(operation)) return {resolve_work(context, operation)};
  std::vector<Work> steps = resolve_copies(context, operation);
  return steps.empty() ? std::vector<Work>{CopyRowsWork{}} : steps;
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
    const Buffer& buffer = program.buffers[b];
    shapes.push_back({layout_.rows(BufferId(b)), buffer.columns, buffer.dtype, buffer.part});
  }
  backend.allocate(shapes);
  const TokenIndex tokens(choices, experts_of(program));
  const ResolveContext context{program, rank, choices, tokens, layout_, facts};
  LastSteps last;
  for (const BlockId block : blocks_) add(context, block, last);
}

/// A rank starts a block once all its operations of the previous block have ended: the first operation on each stream
/// depends on the last ones of all streams. Operations on background streams delay only a Wait.
void Interpreter::add(const ResolveContext& context, BlockId id, LastSteps& before) {
  const Block& block = program_.blocks[id.index()];
  LastSteps last;
  std::vector<std::size_t> last_of;  // last step of each operation
  for (const Operation& operation : block.operations) {
    auto& of_stream = last[static_cast<std::size_t>(operation.stream)];
    Step step{id, static_cast<std::int32_t>(last_of.size()), operation.stream, {}};
    for (std::size_t s = 0; s < before.size() && !of_stream; ++s) {
      if (before[s] && !is_background(kStreamNames[s].first)) step.after.push_back(*before[s]);
    }
    for (const std::int32_t a : operation.after) step.after.push_back(last_of[static_cast<std::size_t>(a)]);
    if (const auto* wait = std::get_if<Wait>(&operation.work)) {
      const auto stream = static_cast<std::size_t>(wait->stream);
      if (const auto& awaited = last[stream] ? last[stream] : before[stream]) step.after.push_back(*awaited);
    }
    add_steps(works_of(context, operation), block, std::move(step));
    of_stream = steps_.size() - 1;
    last_of.push_back(*of_stream);
  }
  for (std::size_t s = 0; s < before.size(); ++s) {
    // On a background stream, earlier operations may still be awaited.
    if (last[s] || !is_background(kStreamNames[s].first)) before[s] = last[s];
  }
}

void Interpreter::add_steps(std::vector<Work> works, const Block& block, Step step) {
  const std::string name = block.name + ": " + block.operations[static_cast<std::size_t>(step.operation)].name;
  for (const Work& work : works) {
    backend_.prepare(work, name);
    steps_.push_back(step);
    step.after.clear();  // later steps follow in stream order
  }
}

std::vector<TimelineSpan> Interpreter::run() {
  backend_.begin();
  for (std::size_t i = 0; i < steps_.size(); ++i) backend_.enqueue(i, steps_[i].stream, steps_[i].after);
  const std::vector<OperationTime> times = backend_.finish();
  std::vector<TimelineSpan> spans;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const SimTime end = SimTime::from_seconds(times[i].end);
    const bool goes_on =
        i > 0 && steps_[i].block == steps_[i - 1].block && steps_[i].operation == steps_[i - 1].operation;
    if (goes_on) {
      spans.back().end = end;
    } else {
      spans.push_back({rank_, steps_[i].block, steps_[i].operation, -1, SimTime::from_seconds(times[i].start), end});
    }
  }
  return spans;
}

bool Interpreter::has_buffer(const std::string& name) const {
  return std::any_of(program_.buffers.begin(), program_.buffers.end(), [&](const Buffer& b) { return b.name == name; });
}

BufferId Interpreter::buffer(const std::string& name) const {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].name == name) return BufferId(b);
  }
  assert(false && "a buffer that the Program does not have");
  return BufferId{};
}

}  // namespace moeplan::runtime
