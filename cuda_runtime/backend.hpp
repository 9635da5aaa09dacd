// The interface of an execution back end: memory, streams, operations and their times. One object represents one rank.
//
// Implementations: CPU ranks over MPI (host/), GPUs over NCCL, and several ranks of one process that share a GPU. All
// calls come from one thread: allocate() and prepare() once, then any number of executions, each of them begin(), one
// enqueue() per operation, and finish(). An enqueued operation waits for its predecessors on the same stream and for
// those in `after`, and for nothing else; the host takes no part in between, so that an execution can be captured as a
// CUDA graph. An operation is identified, here and in messages, by its index in the order of prepare().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_runtime/made_elements.hpp"
#include "cuda_runtime/work.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// A failure of the hardware, of a library or of another rank, not of the input. The text names the call, the operation
/// and the rank.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The size and format of this rank's part of a buffer of the Program.
struct BufferShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::Fp32;
  std::optional<BufferPart> part = {};  // of a buffer that is no part itself and has memory of its own
};

/// Start and end of an operation, relative to the start of the execution (the last barrier before it). `start` is the
/// time at which its stream reached it and all its dependencies had ended; a communication then waits for its peers.
struct OperationTime {
  Seconds start;
  Seconds end;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Allocates the buffers, by BufferId, zero-filled. If a format is not supported for computation here, this or
  /// prepare() raises InputError.
  virtual void allocate(std::span<const BufferShape> buffers) = 0;
  /// Write and read one row of a buffer, converting to and from its format. Not allowed during an execution.
  virtual void write_row(BufferId buffer, std::int64_t row, std::span<const double> values) = 0;
  [[nodiscard]] virtual std::vector<double> read_row(BufferId buffer, std::int64_t row) = 0;
  /// Computes elements of a buffer where it is; the others keep their values. Not allowed during an execution.
  virtual void make(BufferId buffer, const MadeElements& elements) = 0;
  /// Zero-fills a buffer.
  virtual void clear(BufferId buffer) = 0;

  /// Registers the next operation, from index 0, and creates what it needs (index lists in device memory, staging
  /// buffers, communicators). `name` is used in messages. All ranks prepare the same operations in the same order.
  virtual void prepare(const Work& work, const std::string& name) = 0;

  /// Begins an execution on all ranks together (barrier).
  virtual void begin() = 0;
  virtual void enqueue(std::size_t operation, Stream stream, std::span<const std::size_t> after) = 0;
  /// Waits until all operations have ended and returns their times, in the order of prepare(). Raises ExecutionError if
  /// an operation fails or exceeds the time-out, or if another rank has terminated.
  [[nodiscard]] virtual std::vector<OperationTime> finish() = 0;
};

/// Control communication between ranks: texts exchanged in addition to a Program's data.
class Peers {
 public:
  virtual ~Peers() = default;
  [[nodiscard]] virtual RankId rank() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Collective. The texts of all ranks, by rank, on rank 0; empty on the others.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& text) = 0;
  /// Collective. The text passed by rank 0, on all ranks.
  [[nodiscard]] virtual std::string broadcast(const std::string& text) = 0;
};

}  // namespace moeplan::runtime
