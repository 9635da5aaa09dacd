// Runs the block of an MoE layer on all ranks, in one process, in double, one operation after the other: the plain twin
// of the executors. It knows operations and slices, no schedule; what it leaves in "moe.out" and the gradients is
// compared with the reference layer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/program/program.hpp"
#include "model/program/row_keys.hpp"

namespace moeplan {

using Row = std::vector<double>;

/// What a codec makes of a row's values, in place.
using CodecLoss = std::function<void(WireFormat, std::span<double>)>;

/// What a rank has of a buffer.
using BufferRows = std::map<RowKey, Row>;

class ReferenceExecutor {
 public:
  /// `top_k` of the gate; `gated`: the experts' activation. Program and choices outlive this.
  ReferenceExecutor(const Program& program, const TokenChoices& choices, std::int64_t top_k, bool gated,
                    CodecLoss loss);

  /// A row of a buffer that the block reads and does not write.
  void set(RankId rank, const std::string& buffer, const RowKey& key, Row row);
  [[nodiscard]] const BufferRows& buffer(RankId rank, const std::string& name) const;

  /// Every operation of the block in the order listed, each on all ranks. Raises std::logic_error where an operation
  /// reads a row that nobody has written.
  void run(BlockId block);

 private:
  [[nodiscard]] BufferId find(const std::string& name) const;
  [[nodiscard]] BufferRows& rows(RankId rank, BufferId buffer) { return data_[rank.index()][buffer.index()]; }
  [[nodiscard]] std::vector<RowKey> keys(const Slice& slice, RankId rank) const;
  [[nodiscard]] const Row& read(const Slice& slice, const RowKey& key, RankId rank);
  [[nodiscard]] std::size_t columns(const Slice& slice) const;

  void compute(const Operation& operation, RankId rank);
  void gemm(const Operation& operation, const Gemm& gemm, RankId rank);
  void product(const Operation& operation, const Gemm& gemm, RankId rank, const std::vector<RowKey>& a,
               const std::vector<RowKey>& b, const std::vector<RowKey>& c);
  void kernel(const Operation& operation, Kernel kernel, RankId rank);
  void add_up(const Operation& operation, bool weighted, RankId rank);
  void decode_backward(const Operation& operation, RankId rank);
  void codec(const Operation& operation, const Codec& codec, RankId rank);
  void communicate(const Operation& operation, const Communication& c);

  const Program& program_;
  const TokenChoices& choices_;
  std::int64_t top_k_;
  bool gated_;
  CodecLoss loss_;
  std::vector<std::vector<BufferRows>> data_;  // by rank, buffer
};

}  // namespace moeplan
