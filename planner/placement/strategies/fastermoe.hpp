// FasterMoE's dynamic shadowing, [FasterMoE] sec. 4.1.
//
// Notation: B_w is the number of tokens that worker w computes, r the number of shadowed experts, alpha H'^2 the
// elements of one of an expert's two matrices. In PlacementDevices, 4 alpha H'^2 / P is token_time, H' b is
// token_bytes, 2 alpha H'^2 b is parameter_bytes, and W_net is average_bandwidth().
#pragma once

#include <cstdint>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

/// Latency without shadowing, eq. (7) with the largest B_w: 3 B token_time + 4 B token_bytes / W_net.
[[nodiscard]] Seconds fastermoe_imbalanced_latency(std::int64_t largest, const PlacementDevices& devices);

/// Latency with shadowing, eq. (8): 3 B' token_time + 2 r parameter_bytes / W_net. It omits the remaining exchange and
/// therefore accepts shadowing of balanced loads; kept as in the paper for reproduction.
[[nodiscard]] Seconds fastermoe_shadowed_latency(std::int64_t shadowed, std::int64_t largest,
                                                 const PlacementDevices& devices);

/// The conditions under one of which the latency with shadowing is less. eq. (9), B > r alpha H': the parameters that
/// are sent have fewer bytes than the inputs that are not. eq. (10), only if that fails: the computation that it saves
/// takes longer than the communication that it adds. `before` and `after` are the largest B_w without and with
/// shadowing.
[[nodiscard]] bool fastermoe_sends_less(std::int64_t shadowed, std::int64_t before, const PlacementDevices& devices);
[[nodiscard]] bool fastermoe_saves_more(std::int64_t shadowed, std::int64_t before, std::int64_t after,
                                        const PlacementDevices& devices);

/// The same two latencies as in the code that was measured ([FasterMoE]'s artefact, fmoe/transformer.py): computation
/// counts four times, since the code multiplies FLOPs by the bytes of a number as well; a shadowed expert costs its
/// parameters once for the broadcast and 2 (W - 1) / W times for an all-reduce of its gradients over W workers; W_net
/// is that of a NIC.
[[nodiscard]] Seconds fastermoe_code_imbalanced_latency(std::int64_t largest, const PlacementDevices& devices);
[[nodiscard]] Seconds fastermoe_code_shadowed_latency(std::int64_t shadowed, std::int64_t largest,
                                                      const PlacementDevices& devices);

/// The PyTorch operations that algorithm 1 launches in the artefact (fmoe/transformer.py, _global_policy), one by one,
/// to shadow this many experts: it evaluates one more.
[[nodiscard]] std::int64_t fastermoe_search_launches(std::int64_t shadowed);

/// The latencies by which shadowing is decided.
enum class ShadowLatency { Paper, Code };

/// Algorithm 1: the experts to shadow, heaviest first. It stops at the first increase in latency, or when a rank has no
/// slot left (`free` by rank, before shadowing). `homes` by expert. With the code's latencies it stops at the first
/// increase over the latency with one shadow fewer, and shadows none if the least latency is not below that without.
[[nodiscard]] std::vector<std::size_t> fastermoe_shadows(const ExpertColumns& columns,
                                                         const std::vector<std::int64_t>& homes,
                                                         std::vector<std::int64_t> free,
                                                         const PlacementDevices& devices,
                                                         ShadowLatency by = ShadowLatency::Paper);

}  // namespace moeplan::planner
