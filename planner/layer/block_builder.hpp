// Construction of Program blocks: buffers, operations in sequence, and the group families of a set of degrees.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/program/program.hpp"
#include "model/workload/degrees.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The group families of a rank order (candidate.hpp). In Megatron-LM's usual order, tp-cp-ep-dp-pp, tensor-parallel
/// ranks are neighbours, then context-parallel, then data-parallel ranks; for the experts, shards are neighbours, then
/// expert-parallel ranks, then replicas. In tp-cp-dp-ep-pp replicas of an expert are neighbours, then expert-parallel
/// ranks; experts are not sharded then (esp 1), because shards and expert-parallel ranks together would not form groups
/// with a single stride. Pipeline stages are consecutive ranges of ranks.
struct Groups {
  GroupId tp;
  GroupId cp;
  GroupId dp_cp;  // ranks that hold the same dense parameters
  GroupId esp;
  GroupId ep;      // ranks that hold different experts, and the same shard of each
  GroupId ep_esp;  // all ranks that together hold every expert once
  GroupId edp;
  GroupId stages;
  GroupId own;  // the rank by itself
};
/// Adds the group families of these degrees to the program.
[[nodiscard]] Groups add_groups(Program& program, const Degrees& degrees, RankOrder rank_order = RankOrder::Megatron);

/// A matrix product C = A B, or one of its backward forms.
[[nodiscard]] Operation gemm(std::string name, OpClass op_class, Gemm work, Slice a, Slice b, Slice c);
[[nodiscard]] Operation kernel(std::string name, OpClass op_class, Kernel work, std::vector<Slice> reads,
                               std::vector<Slice> writes);
/// The operation as so many kernels, each with its launch.
[[nodiscard]] Operation launched_as(std::int64_t kernels, Operation operation);
[[nodiscard]] Operation collective(std::string name, OpClass op_class, Stream stream, Communication work, Slice in,
                                   Slice out);
/// A copy of the rows it reads to the host's memory, or of those that it writes from there.
[[nodiscard]] Operation host_copy(std::string name, std::vector<Slice> reads, std::vector<Slice> writes);

/// Writes one block of a program.
class BlockBuilder {
 public:
  BlockBuilder(Program& program, std::string name) : program_(program) { block_.name = std::move(name); }

  /// The program's buffer of this name, width and format, made at first use. Layers of different sizes have a buffer
  /// each.
  [[nodiscard]] BufferId buffer(const std::string& name, std::int64_t columns, Dtype dtype);
  [[nodiscard]] Slice slice(const std::string& name, std::int64_t columns, Dtype dtype, Rows rows) {
    return {buffer(name, columns, dtype), std::move(rows)};
  }

  /// A group family of the program, created at first use.
  [[nodiscard]] GroupId group(const std::string& name, std::int64_t size, std::int64_t stride);

  /// Appends an operation that runs after the one appended last.
  std::int32_t then(Operation operation);
  /// Appends an operation that runs after the given ones.
  std::int32_t after(std::vector<std::int32_t> dependencies, Operation operation);
  /// Whether the operation appended last is a kernel of this kind that writes these rows.
  [[nodiscard]] bool last_writes(Kernel kernel, const Slice& rows) const;
  /// Adds to what the operation appended last writes.
  void also_writes(const std::vector<Slice>& rows);
  /// Makes the computations appended from the `first` operation on parts of ones that are launched once.
  void make_parts(std::size_t first, std::int64_t parts);
  /// Sets the operations after which then() continues.
  void continue_after(std::vector<std::int32_t> operations) { last_ = std::move(operations); }
  [[nodiscard]] const std::vector<std::int32_t>& last() const { return last_; }

  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] Program& program() { return program_; }
  /// Appends the block to the program.
  BlockId finish(std::optional<BlockId> backward_of = std::nullopt, std::optional<BlockId> variant_of = std::nullopt);

 private:
  Program& program_;
  Block block_;
  std::vector<std::int32_t> last_;
};

}  // namespace moeplan::planner
