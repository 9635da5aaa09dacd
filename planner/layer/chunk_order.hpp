// OptSche, ScheMoE's order of the chunks of an MoE layer ([ScheMoE] sec. 4, eq. (13)-(14); MODELS section 6).
//
// The layer's tokens are cut into r equal chunks, and each runs C1 A1 D1 E C2 A2 D2: encode by the codec, all-to-all,
// decode, experts, encode, all-to-all, decode. A's run on the communication stream, the others on the compute stream.
//
//   compute        C1^1 .. C1^r, (D1 E C2)^1 .. (D1 E C2)^r, D2^1 .. D2^r
//   communication  A1^1 .. A1^r, A2^1 .. A2^r
//
// It is the best order where t(C1) = t(C2), t(A1) = t(A2) and t(D1) = t(D2), the paper's assumption; otherwise it need
// not be: 18 0 0 3 0 14 11 with r = 2 takes 78, the best order 67.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

enum class ChunkTask : std::uint8_t { Encode, Dispatch, Decode, Expert, EncodeCombine, Combine, DecodeCombine };
inline constexpr std::size_t kChunkTasks = 7;

[[nodiscard]] constexpr bool communicates(ChunkTask task) {
  return task == ChunkTask::Dispatch || task == ChunkTask::Combine;
}

/// The number of a chunk's task (chunks from 0) in the two functions below.
[[nodiscard]] constexpr std::int32_t chunk_task(std::int64_t chunk, ChunkTask task) {
  return static_cast<std::int32_t>(chunk) * static_cast<std::int32_t>(kChunkTasks) + static_cast<std::int32_t>(task);
}

/// A task of a chunk.
struct ChunkStep {
  std::int64_t chunk;
  ChunkTask task;
  bool operator==(const ChunkStep&) const = default;
};

/// A listing whose streams are OptSche's; every task stands after the one that it needs.
[[nodiscard]] std::vector<ChunkStep> opt_sche(std::int64_t chunks);

/// Every task of all chunks before the next task of any: what a library lists that starts each step for all chunks.
[[nodiscard]] std::vector<ChunkStep> task_by_task(std::int64_t chunks);

/// The same as opt_sche(), by number.
[[nodiscard]] std::vector<std::int32_t> opt_sche_order(std::int64_t chunks);

/// The problem that it solves: streams are 0 for computation and 1 for communication. Durations of one chunk's tasks in
/// order.
[[nodiscard]] OrderProblem opt_sche_problem(std::int64_t chunks, const std::array<SimTime, kChunkTasks>& durations);

}  // namespace moeplan::planner
