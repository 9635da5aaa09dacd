#include "model/costs/memory.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/base/whole_numbers.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

/// The slice that contains this one if this one is a chunk, or the rows of some sources or experts.
Slice whole(Slice slice) {
  std::erase_if(slice.rows.path, [](const RowStep& s) { return s.kind == RowStep::Kind::Chunk; });
  for (RowStep& s : slice.rows.path) {
    if (s.kind == RowStep::Kind::Union) s.index = 0, s.count = 1;
  }
  Rows& rows = slice.rows;
  const bool is_elsewhere = rows.experts == Rows::Experts::Behind || rows.experts == Rows::Experts::Paired ||
                            (rows.experts == Rows::Experts::Held && rows.behind > 0);
  if (rows.kind == Rows::Kind::Routed && is_elsewhere) rows.experts = Rows::Experts::All;
  return slice;
}

/// The distinct rows of a Program's slices, each counted once a rank.
class DistinctRows {
 public:
  /// The index of these rows in the counts of a rank.
  std::size_t index_of(Rows rows) {
    const std::size_t key = static_cast<std::size_t>(rows.kind) + 31 * static_cast<std::size_t>(rows.each) +
                            7 * static_cast<std::size_t>(rows.experts) + 1009 * rows.path.size();
    std::vector<std::size_t>& candidates = by_key_[key];
    for (const std::size_t i : candidates) {
      if (rows_[i] == rows) return i;
    }
    candidates.push_back(rows_.size());
    rows_.push_back(std::move(rows));
    return candidates.back();
  }

  /// By rank, in the order of `ranks`: the number of each of the rows.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> counts(const Program& program,
                                                              const std::vector<RankId>& ranks) const {
    std::vector<std::vector<std::int64_t>> out(ranks.size());
    const bool is_of_all = std::ssize(ranks) == program.ranks_per_stage();
    for (const Rows& rows : rows_) {
      const std::vector<std::int64_t> all = is_of_all ? row_counts(program, rows) : std::vector<std::int64_t>{};
      for (std::size_t i = 0; i < ranks.size(); ++i)
        out[i].push_back(is_of_all ? all[i] : row_count(program, rows, ranks[i]));
    }
    return out;
  }

 private:
  std::vector<Rows> rows_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_key_;
};

/// Buffers of weights, gradients and states, which are counted by parameters; not gathered ones nor moments in fp32.
bool is_state(const Program& program, const Operation& op, const Slice& s) {
  const std::string& name = program.buffer(s.buffer).name;
  if (name.ends_with(kGatheredWeights) || name.ends_with(kMomentsInFp32)) return false;
  return s.rows.kind == Rows::Kind::PerExpert || name.starts_with("w.") || name.starts_with("d.w.") ||
         op.op_class == OpClass::WeightGather || op.op_class == OpClass::Gradient || op.op_class == OpClass::Optimizer;
}

/// The accesses of a block to one buffer that is neither weight, gradient nor state.
struct Accesses {
  BufferId buffer = {};
  std::vector<std::pair<std::size_t, std::int64_t>> slices{};  // distinct rows, bytes of a row
  std::size_t first = 0, last = 0;                             // indices of operations
  std::optional<std::size_t> written = {};                     // the first operation that writes it
  bool begins_with_read = false;                               // it holds rows from before the block
  bool ends_with_write = false;                                // it holds rows for after the block
  bool is_kept = false;                                        // for the backward block
  bool was_kept = false;                                       // by the forward block

  [[nodiscard]] double bytes(const std::vector<std::int64_t>& counts) const {
    std::int64_t most = 0;
    for (const auto& [rows, row_bytes] : slices) most = std::max(most, counts[rows] * row_bytes);
    return static_cast<double>(most);
  }
};

std::map<BufferId, Accesses> accesses_of(const Program& program, const Block& block, DistinctRows& rows) {
  std::map<BufferId, Accesses> out;
  for (std::size_t i = 0; i < block.operations.size(); ++i) {
    const Operation& op = block.operations[i];
    const auto note = [&](const Slice& s, bool writes) {
      if (is_state(program, op, s)) return;
      const auto [it, is_new] = out.try_emplace(s.buffer);
      Accesses& a = it->second;
      if (is_new) a.buffer = s.buffer, a.first = i, a.begins_with_read = !writes;
      a.last = i;
      a.ends_with_write = writes;
      if (writes && !a.written) a.written = i;
      const Buffer& buffer = program.buffer(s.buffer);
      const std::pair slice(rows.index_of(whole(s).rows), buffer.columns * size_of(buffer.dtype));
      if (std::find(a.slices.begin(), a.slices.end(), slice) == a.slices.end()) a.slices.push_back(slice);
    };
    for (const Slice& s : op.reads) note(s, false);
    for (const Slice& s : op.writes) note(s, true);
  }
  return out;
}

/// Rows that a block copies to its host, or of negative bytes back.
struct HostRows {
  std::size_t rows;
  std::int64_t row_bytes;
};

std::vector<HostRows> host_rows_of(const Program& program, const Block& block, DistinctRows& rows) {
  std::vector<HostRows> out;
  for (const Operation& op : block.operations) {
    if (!std::holds_alternative<HostCopy>(op.work) || op.kernels == 0) continue;
    const auto add = [&](const Slice& s, std::int64_t sign) {
      const Buffer& buffer = program.buffer(s.buffer);
      out.push_back({rows.index_of(s.rows), sign * buffer.columns * size_of(buffer.dtype)});
    };
    for (const Slice& s : op.reads) add(s, 1);
    for (const Slice& s : op.writes) add(s, -1);
  }
  return out;
}

/// The accesses of all blocks of a Program, whatever the rank.
struct ProgramAccesses {
  explicit ProgramAccesses(const Program& program) {
    std::vector<std::set<BufferId>> kept(program.blocks.size());
    for (const Block& block : program.blocks) {
      if (block.backward_of) kept[block.backward_of->index()].merge(read_first(block));
    }
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      const Block& block = program.blocks[b];
      const std::set<BufferId>& own = kept[block.variant_of ? block.variant_of->index() : b];
      std::vector<Accesses>& of_block = blocks.emplace_back();
      for (auto& [buffer, a] : accesses_of(program, block, rows)) {
        a.is_kept = own.contains(buffer) && a.written;
        a.was_kept = block.backward_of && kept[block.backward_of->index()].contains(buffer) && a.begins_with_read;
        of_block.push_back(std::move(a));
      }
      host_rows.push_back(host_rows_of(program, block, rows));
    }
  }

  DistinctRows rows;
  std::vector<std::vector<Accesses>> blocks;     // by block, then by buffer
  std::vector<std::vector<HostRows>> host_rows;  // by block
};

/// Bytes kept from a block to its backward block, and the largest number of bytes in use at any of its operations
/// beyond those kept before it. Operations run in the order listed; a buffer is in use from its first access to its
/// last one, or to the end if it holds the block's result.
struct BlockMemory {
  double kept = 0;
  double peak = 0;
  std::size_t at = 0;  // the operation of the peak
  double away = 0;     // bytes more in the host's memory after it; of a sequence, most at once
};

/// The moment when a stage has most bytes in use: in a block, while others are kept so many times.
struct PeakMoment {
  std::size_t block = 0;
  std::vector<std::int64_t> kept;  // by block
};

class StageMemory {
 public:
  /// `counts` of the accesses' rows on the rank.
  StageMemory(const Program& program, const ProgramAccesses& accesses, const std::vector<std::int64_t>& counts)
      : program_(program), accesses_(accesses), counts_(counts) {
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      blocks_.push_back(memory_of(program.blocks[b], accesses.blocks[b], counts));
      for (const HostRows& h : accesses.host_rows[b])
        blocks_.back().away += static_cast<double>(counts[h.rows] * h.row_bytes);
    }
  }

  /// The maximum of the kept bytes over time, of all bytes in use, and of those in the host's memory.
  BlockMemory of(const Sequence& sequence) {
    kept_ = away_ = 0;
    most_ = {};
    walk(sequence);
    return most_;
  }

  /// The buffers in use at the peak that of() finds, which alone counts what is kept then.
  [[nodiscard]] std::vector<BufferUse> at_peak(const Sequence& sequence) {
    instances_.assign(blocks_.size(), 0);
    of(sequence);
    std::vector<BufferUse> out;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (const Accesses& a : accesses_.blocks[b]) {
        const Bytes bytes(a.bytes(counts_));
        const std::int64_t kept = a.is_kept ? moment_.kept[b] : 0;
        const std::int64_t count = kept + (b == moment_.block && is_in_use(a, blocks_[b].at) ? 1 : 0);
        if (bytes > Bytes(0) && count > 0)
          out.push_back({program_.blocks[b].name, program_.buffer(a.buffer).name, bytes, count});
      }
    }
    return out;
  }

 private:
  /// Whether a buffer counts among those of its block in use at an operation.
  static bool is_in_use(const Accesses& a, std::size_t at) {
    if (a.is_kept) return *a.written <= at;
    if (a.was_kept) return false;
    return (a.begins_with_read || a.first <= at) && (a.ends_with_write || at <= a.last);
  }

  static BlockMemory memory_of(const Block& block, const std::vector<Accesses>& accesses,
                               const std::vector<std::int64_t>& counts) {
    BlockMemory out;
    std::vector<double> change(block.operations.size() + 1, 0.0);  // of the bytes in use, before each operation
    for (const Accesses& a : accesses) {
      const double bytes = a.bytes(counts);
      if (a.is_kept) {
        out.kept += bytes;
        change[*a.written] += bytes;
        continue;
      }
      if (!a.was_kept) change[a.begins_with_read ? 0 : a.first] += bytes;  // else counted before the block
      if (!a.ends_with_write) change[a.last + 1] -= bytes;
    }
    double in_use = 0;
    for (std::size_t i = 0; i < change.size(); ++i) {
      in_use += change[i];
      if (in_use > out.peak) out.peak = in_use, out.at = i;
    }
    return out;
  }

  void walk(const Sequence& sequence) {
    for (const Step& step : sequence) {
      step.is_block() ? pass(step.block) : repeat(step);
    }
  }

  void pass(BlockId id) {
    const Block& block = program_.blocks[id.index()];
    const BlockMemory& own = blocks_[id.index()];
    if (kept_ + own.peak > most_.peak) {
      most_.peak = kept_ + own.peak;
      moment_ = {.block = id.index(), .kept = instances_};
    }
    away_ += own.away;
    most_.away = std::max(most_.away, away_);
    kept_ += own.kept;
    count(id, 1);
    most_.kept = std::max(most_.kept, kept_);
    if (!block.backward_of) return;
    kept_ -= blocks_[block.backward_of->index()].kept;
    count(*block.backward_of, -1);
  }

  /// Variants of a block count as the block.
  void count(BlockId block, std::int64_t more) {
    if (!instances_.empty()) instances_[program_.blocks[block.index()].variant_of.value_or(block).index()] += more;
  }

  void repeat(const Step& step) {
    const double before = kept_, away_before = away_, most_away_before = std::exchange(most_.away, 0.0);
    const std::vector<std::int64_t> instances_before = instances_;
    PeakMoment moment_before = std::exchange(moment_, {});
    const double peak_before = std::exchange(most_.peak, 0.0);
    walk(step.body);
    const double more = (kept_ - before) * static_cast<double>(step.count - 1);
    kept_ += more;
    const double peak = most_.peak + std::max(0.0, more);
    const double more_away = (away_ - away_before) * static_cast<double>(step.count - 1);
    away_ += more_away;
    most_.away = std::max(most_away_before, most_.away + std::max(0.0, more_away));
    for (std::size_t b = 0; b < instances_.size(); ++b) {
      const std::int64_t of_others = (instances_[b] - instances_before[b]) * (step.count - 1);
      instances_[b] += of_others;
      if (more > 0 && !moment_.kept.empty()) moment_.kept[b] += of_others;
    }
    if (peak <= peak_before) moment_ = std::move(moment_before);
    most_.peak = std::max(peak_before, peak);
    if (more > 0) most_.kept = std::max(most_.kept, kept_);
  }

  std::vector<BlockMemory> blocks_;
  const Program& program_;
  const ProgramAccesses& accesses_;
  const std::vector<std::int64_t>& counts_;
  double kept_ = 0, away_ = 0;
  std::vector<std::int64_t> instances_;  // whose kept bytes are kept, by block; empty: not counted
  BlockMemory most_;
  PeakMoment moment_;
};

/// The ranks' counts without those that others reach in every row. A stage needs no less memory with more of any rows,
/// so its fullest rank is among the rest.
std::vector<std::vector<std::int64_t>> without_lesser(std::vector<std::vector<std::int64_t>> ranks) {
  const auto reaches = [](const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), std::greater_equal<>());
  };
  std::vector<std::vector<std::int64_t>> out;
  for (std::vector<std::int64_t>& counts : ranks) {
    if (std::any_of(out.begin(), out.end(), [&](const auto& other) { return reaches(other, counts); })) continue;
    std::erase_if(out, [&](const auto& other) { return reaches(counts, other); });
    out.push_back(std::move(counts));
  }
  return out;
}

/// Families of groups of several ranks that communicate.
std::int64_t communicators(const Program& program) {
  std::set<GroupId> used;
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      if (op.communication()) used.insert(op.communication()->group);
      if (const auto* send = std::get_if<Send>(&op.work)) used.insert(send->group);
    }
  }
  return std::count_if(used.begin(), used.end(), [&](GroupId g) { return program.group(g).size > 1; });
}

double experts(const ModelSpec& model, const Moe& moe) {
  return static_cast<double>(expert_parameters(moe, model.hidden_size));
}

}  // namespace

std::set<BufferId> read_first(const Block& block) {
  std::set<BufferId> first, written;
  for (const Operation& op : block.operations) {
    for (const Slice& s : op.reads) {
      if (!written.contains(s.buffer)) first.insert(s.buffer);
    }
    for (const Slice& s : op.writes) written.insert(s.buffer);
  }
  return first;
}

UnitParameters layer_parameters(const ModelSpec& model, const LayerSpec& layer, const Degrees& degrees) {
  UnitParameters p{.dense = static_cast<double>(dense_parameters(model, layer)) / static_cast<double>(degrees.tp)};
  if (const Moe* moe = std::get_if<Moe>(&layer.ffn)) {
    p.expert = static_cast<double>(ceil_div(moe->num_experts, degrees.ep)) * experts(model, *moe) /
               static_cast<double>(degrees.esp);
  }
  return p;
}

UnitParameters embedding_parameters(const ModelSpec& model, const Degrees& degrees) {
  auto rest = static_cast<double>(count_parameters(model).total - head_parameters(model));
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      const double routed = moe ? static_cast<double>(moe->num_experts) * experts(model, *moe) : 0;
      rest -= static_cast<double>(run.repeat) * (static_cast<double>(dense_parameters(model, layer)) + routed);
    }
  }
  return {.dense = rest / static_cast<double>(degrees.tp)};
}

UnitParameters head_parameters(const ModelSpec& model, const Degrees& degrees, bool has_embedding) {
  const bool is_copy = model.tied_embeddings && !has_embedding;
  const std::int64_t table = is_copy ? model.vocab_size * model.hidden_size : head_parameters(model);
  return {.dense = static_cast<double>(table) / static_cast<double>(degrees.tp)};
}

UnitParameters mtp_input_parameters(const ModelSpec& model, const Degrees& degrees) {
  const auto hidden = static_cast<double>(model.hidden_size);
  return {.dense = (2 * hidden * hidden + 2 * hidden) / static_cast<double>(degrees.tp)};
}

MemoryUse state_memory(const StageParameters& stage, const Workload& workload, const Degrees& degrees) {
  const auto count = [&](const UnitParameters& p, bool shared_out) {
    if (!shared_out) return p.dense + p.expert;
    return p.dense / static_cast<double>(degrees.dp * degrees.cp) + p.expert / static_cast<double>(degrees.edp);
  };
  const bool shares_weights = workload.mode == Mode::Train && workload.zero_stage >= 3;
  const auto size = static_cast<double>(size_of(workload.dtype));
  const auto gradient_size = static_cast<double>(size_of(workload.gradient_dtype));
  MemoryUse use{};
  use.weights =
      Bytes(count(stage.all, shares_weights) * static_cast<double>(weight_bytes(workload)) + stage.all.copied * size);
  if (workload.mode != Mode::Train) return use;
  use.gradients = Bytes((count(stage.all, workload.zero_stage >= 2) + stage.all.copied) * gradient_size);
  if (shares_weights) {
    const double gathered = count(stage.largest, false) - count(stage.largest, true);
    use.weights += Bytes(gathered * size * (copies_gathered(workload) ? 3 : 2));
    use.gradients += Bytes(gathered * (gradient_size + (copies_gathered(workload) ? size : 0)));
  }
  const bool on_gpu = !workload.offload.has(OffloadModule::OptimizerStates);
  (on_gpu ? use.optimizer : use.host) =
      Bytes(count(stage.all, workload.zero_stage >= 1) * static_cast<double>(optimizer_bytes(workload)));
  return use;
}

std::vector<MemoryUse> memory_by_stage(const Program& program, const std::vector<StageParameters>& stages,
                                       const Workload& workload, const Degrees& degrees, const RuntimeMemory& runtime,
                                       std::vector<RankId> ranks) {
  if (ranks.empty()) ranks = ranks_that_differ(program);
  std::vector<MemoryUse> most(stages.size()), states;
  for (const StageParameters& stage : stages) states.push_back(state_memory(stage, workload, degrees));
  for (std::size_t s = 0; keeps_gradients(workload) && s < states.size(); ++s)
    states[s].gradients += bytes_of_shapes(program, s, workload.dtype);
  const Bytes fixed = runtime.context + static_cast<double>(communicators(program)) * runtime.communicator;
  const ProgramAccesses accesses(program);
  for (const std::vector<std::int64_t>& counts : without_lesser(accesses.rows.counts(program, ranks))) {
    StageMemory memory(program, accesses, counts);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      MemoryUse use = states[s];
      const BlockMemory blocks = memory.of(program.stages[s]);
      use.host += Bytes(blocks.away);
      use.activations = Bytes(blocks.kept);
      use.working = Bytes(std::max(0.0, blocks.peak - blocks.kept));
      use.fragments = Bytes(std::ceil((runtime.fragmentation * (use.activations + use.working)).value()));
      use.working += runtime.workspaces;
      use.runtime = fixed + use.fragments;
      use.stage = s;
      if (use.total() > most[s].total()) most[s] = use;
    }
  }
  return most;
}

std::vector<BufferUse> buffers_at_peak(const Program& program, std::size_t stage) {
  const ProgramAccesses accesses(program);
  std::vector<BufferUse> out;
  double most = 0;
  for (const auto& counts : without_lesser(accesses.rows.counts(program, ranks_that_differ(program)))) {
    StageMemory memory(program, accesses, counts);
    const double peak = memory.of(program.stages[stage]).peak;
    if (peak > most) most = peak, out = memory.at_peak(program.stages[stage]);
  }
  return out;
}

MemoryUse memory_use(const Program& program, const std::vector<StageParameters>& stages, const Workload& workload,
                     const Degrees& degrees, const RuntimeMemory& runtime) {
  const std::vector<MemoryUse> all = memory_by_stage(program, stages, workload, degrees, runtime);
  return *std::ranges::max_element(all, {}, [](const MemoryUse& use) { return use.total(); });
}

}  // namespace moeplan
