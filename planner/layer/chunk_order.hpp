// ScheMoE's OptSche order of the chunks of an MoE layer ([ScheMoE] sec. 4, eq. (13)-(14); MODELS section 6).
//
// The layer's tokens are cut into r equal chunks, each of which runs C1 A1 D1 E C2 A2 D2: codec encode, all-to-all,
// decode, experts, encode, all-to-all, decode. All-to-alls run on the communication stream, the other tasks on the
// compute stream.
//
//   compute        C1^1 .. C1^r, (D1 E C2)^1 .. (D1 E C2)^r, D2^1 .. D2^r
//   communication  A1^1 .. A1^r, A2^1 .. A2^r
//
// The order is optimal under the paper's assumption that t(C1) = t(C2), t(A1) = t(A2) and t(D1) = t(D2). Otherwise it
// may not be: with durations 18 0 0 3 0 14 11 and r = 2 it takes 78, the best order 67.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

/// The tasks of a chunk, in order.
enum class ChunkTask : std::uint8_t { Encode, Dispatch, Decode, Expert, EncodeCombine, Combine, DecodeCombine };
inline constexpr std::size_t kChunkTasks = 7;

[[nodiscard]] constexpr bool communicates(ChunkTask task) {
  return task == ChunkTask::Dispatch || task == ChunkTask::Combine;
}

/// The index of a chunk's task (chunks from 0) in the last two functions of this header.
[[nodiscard]] constexpr std::int32_t chunk_task(std::int64_t chunk, ChunkTask task) {
  return static_cast<std::int32_t>(chunk) * static_cast<std::int32_t>(kChunkTasks) + static_cast<std::int32_t>(task);
}

/// A task of a chunk.
struct ChunkStep {
  std::int64_t chunk;
  ChunkTask task;
  bool operator==(const ChunkStep&) const = default;
};

/// The tasks of all chunks in an order whose streams follow OptSche; every task comes after its predecessor.
[[nodiscard]] std::vector<ChunkStep> opt_sche(std::int64_t chunks);

/// The same with the chunks dispatched in order, and computed and combined in the order 1, 2, .., 0.
[[nodiscard]] std::vector<ChunkStep> opt_sche_first_chunk_last(std::int64_t chunks);

/// Every task for all chunks before the next task of any chunk: the order of a library that starts each step for all
/// chunks.
[[nodiscard]] std::vector<ChunkStep> task_by_task(std::int64_t chunks);

/// opt_sche() as task indices.
[[nodiscard]] std::vector<std::int32_t> opt_sche_order(std::int64_t chunks);

/// The ordering problem that OptSche solves: stream 0 is computation, stream 1 communication. `durations` are those of
/// one chunk's tasks in order.
[[nodiscard]] OrderProblem opt_sche_problem(std::int64_t chunks, const std::array<SimTime, kChunkTasks>& durations);

}  // namespace moeplan::planner
