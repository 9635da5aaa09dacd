// What a machine must do so that a Program runs on it: memory, streams, operations, times. One object is one rank.
//
// Behind this interface stand CPU ranks over MPI (host/), GPUs over NCCL, and several ranks of one process on one GPU.
// Calls come from one thread. allocate() and prepare() once; then enqueue() of a whole run and finish(), as often as
// wanted. An operation that is enqueued waits for those before it on its stream and for those in `after`, and for
// nothing else: the host is not asked in between, so that a run can be captured as a graph. An operation's place in the
// order of prepare() is its name here and in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_runtime/work.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// A failure of the machine or of another rank, not of the input: says the call, the operation and the rank.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What this rank holds of a buffer of the Program.
struct BufferShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::Fp32;
};

/// When an operation ran, since the begin of the run (the last barrier before it). `start`: when its stream reached it
/// and all that it waits for had ended; a communication then waits for its peers.
struct OperationTime {
  Seconds start;
  Seconds end;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// The buffers by BufferId, all zeros. Raises InputError where a format is not computed with here.
  virtual void allocate(std::span<const BufferShape> buffers) = 0;
  /// A row of a buffer, converted from and to its format. Not while anything runs.
  virtual void write_row(BufferId buffer, std::int64_t row, std::span<const double> values) = 0;
  [[nodiscard]] virtual std::vector<double> read_row(BufferId buffer, std::int64_t row) = 0;
  /// All zeros again.
  virtual void clear(BufferId buffer) = 0;

  /// Makes ready whatever an operation needs (index lists in device memory, staging buffers, communicators). `name` is
  /// for messages. The first one is 0. Ranks prepare the same operations in the same order.
  virtual void prepare(const Work& work, const std::string& name) = 0;

  /// All ranks begin a run together.
  virtual void begin() = 0;
  virtual void enqueue(std::size_t operation, Stream stream, std::span<const std::size_t> after) = 0;
  /// Waits until everything has ended; times by operation as prepared. Raises ExecutionError where an operation fails
  /// or takes longer than the time-out, and where another rank is gone.
  [[nodiscard]] virtual std::vector<OperationTime> finish() = 0;
};

/// What ranks have to say to each other besides a Program's data.
class Peers {
 public:
  virtual ~Peers() = default;
  [[nodiscard]] virtual RankId rank() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Of all ranks, by rank, on rank 0; nothing elsewhere.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& text) = 0;
  /// What rank 0 says.
  [[nodiscard]] virtual std::string broadcast(const std::string& text) = 0;
};

}  // namespace moeplan::runtime
