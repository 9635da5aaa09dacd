// The streams of one simulated rank: which of its operations can start, and which have ended.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/program/program.hpp"
#include "sim/program/operation_instance.hpp"

namespace moeplan::sim {

/// The order of a block's operations, the same for all ranks that execute it.
class BlockOrder {
 public:
  /// `operations` must outlive this.
  explicit BlockOrder(const std::vector<Operation>& operations);

  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  /// By operation, how many others it comes after.
  [[nodiscard]] const std::vector<std::int32_t>& dependencies() const { return dependencies_; }
  /// The operations that come after one.
  [[nodiscard]] std::span<const std::int32_t> followers(std::int32_t operation) const;
  /// The operations of a stream that the block's end waits for.
  [[nodiscard]] const std::vector<std::int32_t>& of_stream(std::size_t stream) const { return streams_[stream]; }
  /// How many operations the block's end waits for.
  [[nodiscard]] std::int32_t awaited() const { return awaited_; }
  /// Operations of background streams, and Waits.
  [[nodiscard]] const std::vector<std::int32_t>& background_and_waits() const { return background_and_waits_; }

 private:
  const std::vector<Operation>& operations_;
  std::vector<std::int32_t> dependencies_;
  std::vector<std::size_t> first_follower_;  // by operation, and the end
  std::vector<std::int32_t> followers_;
  std::array<std::vector<std::int32_t>, kStreams> streams_{};
  std::vector<std::int32_t> background_and_waits_;
  std::int32_t awaited_ = 0;
};

/// The orders of a Program's blocks, made when they are needed. `program` must outlive it.
class BlockOrders {
 public:
  explicit BlockOrders(const Program& program) : program_(program), orders_(program.blocks.size()) {}

  /// Valid as long as this.
  [[nodiscard]] const BlockOrder& of(BlockId block) {
    std::optional<BlockOrder>& order = orders_[block.index()];
    return order ? *order : order.emplace(program_.blocks[block.index()].operations);
  }

 private:
  const Program& program_;
  std::vector<std::optional<BlockOrder>> orders_;
};

/// FIFO queues of operations. An operation can start once it is at the head of its stream and all that it comes after
/// in its block have ended. Background streams outlive blocks: their operations need not end with their block.
class RankStreams {
 public:
  /// An operation that has been at work, and since when.
  struct Started {
    OperationInstance instance;
    SimTime start;
  };

  /// Lists the operations of the block that follows. All operations of the last block that are not on background
  /// streams must have ended. `order` must outlive the block's execution.
  void begin_block(BlockId block, const BlockOrder& order);
  [[nodiscard]] BlockId block() const { return block_; }
  [[nodiscard]] const Operation& operation(std::int32_t index) const {
    return order_->operations()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int64_t block_number() const { return block_number_; }
  /// Counts blocks as begun that are not.
  void skip_blocks(std::int64_t number) { block_number_ += number; }
  /// Whether all operations of the block have ended, other than those on background streams.
  [[nodiscard]] bool block_has_ended() const { return open_operations_ == 0; }

  /// Starts the next operation of a stream of the block, if it can start.
  std::optional<std::int32_t> start_next(std::size_t stream, SimTime now);
  /// Ends an operation of the block.
  void end(std::int32_t operation);
  [[nodiscard]] SimTime start_of(std::int32_t operation) const { return start_[static_cast<std::size_t>(operation)]; }

  /// Starts the next operation of a background stream, if it can start.
  std::optional<OperationInstance> start_next_background(std::size_t stream, SimTime now);
  /// Ends the operation in progress on a background stream.
  Started end_background(std::size_t stream);
  /// Whether no operation is listed on a background stream that has not ended.
  [[nodiscard]] bool background_is_idle() const;

  /// Begins a Wait of the block. It ends when the operations listed before it on its stream have ended.
  void begin_wait(std::int32_t operation, const Wait& wait);
  /// Takes a Wait that ends now, in the order in which they began.
  std::optional<std::int32_t> take_ended_wait();

 private:
  /// An operation of a background stream that has not ended.
  struct Queued {
    OperationInstance instance;
    std::int32_t open_dependencies;
    SimTime start;
  };
  struct BackgroundStream {
    std::deque<Queued> queue;  // in the order listed
    bool is_busy = false;      // its first operation is in progress
    std::int64_t listed = 0;
    std::int64_t ended = 0;
  };
  /// A stream of the block.
  struct BlockStream {
    std::size_t head = 0;  // of its operations, the index of the next
    bool is_busy = false;
  };
  /// A Wait that has begun; it ends when `ends` operations of the stream have ended.
  struct Waiting {
    std::int32_t operation;
    std::size_t stream;
    std::int64_t ends;
  };

  /// How many of the operations that it comes after have not ended.
  std::int32_t& open_dependencies(const Operation& operation, std::size_t index);

  BlockId block_;
  const BlockOrder* order_ = nullptr;
  std::int64_t block_number_ = -1;  // number of blocks begun before this one
  std::int32_t open_operations_ = 0;
  std::vector<std::int32_t> open_dependencies_;  // by operation
  std::vector<SimTime> start_;                   // by operation
  std::vector<std::int64_t> listed_before_;      // by operation, of Waits: operations listed before on its stream
  std::array<BlockStream, kStreams> streams_{};
  std::array<BackgroundStream, kStreams> background_{};
  std::vector<Waiting> waits_;
};

}  // namespace moeplan::sim
