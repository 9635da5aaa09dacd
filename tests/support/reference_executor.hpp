// The reference implementation of the executors: runs the block of an MoE layer on all ranks in one process, in double
// precision, one operation after the other. It knows operations and slices, but no schedule; the contents that it
// leaves in "moe.out" and the gradients are compared with the reference layer.
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

/// The values of one row of a buffer.
using Row = std::vector<double>;

/// A function that applies the loss of a codec to the values of a row, in place.
using CodecLoss = std::function<void(WireFormat, std::span<double>)>;

/// The rows of a buffer that a rank has.
using BufferRows = std::map<RowKey, Row>;

/// The executor and the buffers of all ranks.
class ReferenceExecutor {
 public:
  /// `top_k` of the gate; `gated` if the experts' activation is gated. Program and choices must outlive this object.
  ReferenceExecutor(const Program& program, const TokenChoices& choices, std::int64_t top_k, bool gated,
                    CodecLoss loss);

  /// Sets a row of a buffer that the block reads and does not write.
  void set(RankId rank, const std::string& buffer, const RowKey& key, Row row);
  [[nodiscard]] const BufferRows& buffer(RankId rank, const std::string& name) const;

  /// Runs the operations of the block in the order listed, each on all ranks. Raises std::logic_error if an operation
  /// reads a row that no operation or set() has written.
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
