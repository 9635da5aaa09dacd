// Closed forms of [Parm] ("Parm: Efficient Training of Large Sparsely-Activated Models with Dedicated Schedules"): the
// communication time of an MoE layer's forward pass with the baseline schedule and with Parm's S1 and S2. MODELS
// section 7.
//
// The paper's notation: P GPUs; N_MP, N_EP, N_ESP sizes of the tensor-parallel, expert-parallel and expert-sharding
// groups; B samples per GPU of L tokens; M hidden size; H hidden size of an expert; E experts; k experts per token; f
// capacity factor. x = ETM = f k B L M elements is the dispatched tensor of a GPU, with the capacity T = f k B L / E
// not rounded; y = ETM N_ESP / N_MP is what S1 and S2 exchange. Sizes here are in bytes: elements times b.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "model/base/quantity.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

struct ParmProblem {
  std::int64_t P;
  std::int64_t N_MP;
  std::int64_t N_EP;
  std::int64_t N_ESP;
  std::int64_t B;
  std::int64_t L;
  std::int64_t M;
  std::int64_t H;
  std::int64_t E;
  std::int64_t k;
  double f;
  std::int64_t b;  // bytes per element
  bool operator==(const ParmProblem&) const = default;

  [[nodiscard]] Bytes blm() const;  // B L M b: the layer's input on a GPU
  [[nodiscard]] Bytes etm() const;  // x
  [[nodiscard]] Bytes y() const;
};

/// The collectives that the schedules use, each on its own group. n as for AlphaBeta.
enum class ParmCollective {
  AllToAllEp,
  AllToAllEpEsp,  // A2A* over the EP x ESP group
  AllGatherEsp,
  ReduceScatterEsp,
  AllReduceEsp,
  AllGatherMp,
  Overlapped  // Overlap(y): A2A*(y) together with AG_MP(ETM), n = y
};

/// The cost function of the collectives. Groups of one GPU are never queried.
using ParmCosts = std::function<Seconds(ParmCollective, Bytes)>;

/// eq. (12), for each collective. Without `overlapped`, Overlap(y) is the sum of A2A*(y) and AG_MP(ETM), its upper
/// bound.
struct ParmAlphaBeta {
  AlphaBeta all_to_all_ep;
  AlphaBeta all_to_all_ep_esp;
  AlphaBeta all_gather_esp;
  AlphaBeta reduce_scatter_esp;
  AlphaBeta all_reduce_esp;
  AlphaBeta all_gather_mp;
  std::optional<AlphaBeta> overlapped;  // (alpha_o, beta_o); no published values
};
[[nodiscard]] ParmCosts parm_costs(const ParmProblem& problem, const ParmAlphaBeta& measured);

/// Costs on the first P GPUs of a cluster by group_collective_time(). Overlapped is a best case: both run concurrently,
/// neither is slower than alone, and no link carries the traffic of both faster than its bandwidth allows. The cluster
/// must outlive the result.
[[nodiscard]] ParmCosts parm_costs(const ParmProblem& problem, const Cluster& cluster);

/// Time of a collective over n bytes on all groups of `size` ranks, `stride` apart, among the first `world` ranks
/// concurrently: start-up plus the time of the most loaded link or, if alpha-beta is measured, of the bandwidth that it
/// implies. Zero for groups of one. `world` must be a multiple of size times stride.
[[nodiscard]] Seconds group_collective_time(const Cluster& cluster, std::int64_t world, Collective collective,
                                            std::int64_t size, std::int64_t stride, Bytes n);

/// The argument of eq. (1)'s all-gather: the text leaves open whether BLM or ETM elements are gathered.
enum class ParmGathered { Blm, Etm };

/// The same for a part of an all-to-all (Communication::of); its group is ignored.
[[nodiscard]] Seconds group_part_time(const Cluster& cluster, std::int64_t world, const Communication& part,
                                      std::int64_t size, std::int64_t stride, Bytes n);

/// eq. (1): AG_ESP(BLM N_ESP) + AR_ESP(x N_ESP) + 2 A2A_EP(x N_ESP).
[[nodiscard]] Seconds parm_baseline_time(const ParmProblem& problem, const ParmCosts& costs,
                                         ParmGathered gathered = ParmGathered::Blm);

/// S1: without MP eq. (2), 2 A2A*(x N_ESP), otherwise 2 A2A*(y) + AG_MP(BLM).
[[nodiscard]] Seconds parm_s1_time(const ParmProblem& problem, const ParmCosts& costs);

/// S2: without MP eq. (2), otherwise eq. (7): A2A*(y) + Overlap(y), or 2 A2A*(y) + AG_MP(ETM) without overlap
/// (`_in_turn`).
[[nodiscard]] Seconds parm_s2_time(const ParmProblem& problem, const ParmCosts& costs);
[[nodiscard]] Seconds parm_s2_time_in_turn(const ParmProblem& problem, const ParmCosts& costs);

/// eq. (13) and (14), for N_MP > 1, and algorithm 1: S1 if t_D1 <= t_D2, else S2.
[[nodiscard]] Seconds parm_t_d1(const ParmProblem& problem, AlphaBeta all_to_all, AlphaBeta all_gather);
[[nodiscard]] Seconds parm_t_d2(const ParmProblem& problem, AlphaBeta all_to_all, AlphaBeta overlapped);
enum class ParmChoice { S1, S2 };
[[nodiscard]] ParmChoice parm_choice(const ParmProblem& problem, AlphaBeta all_to_all, AlphaBeta all_gather,
                                     AlphaBeta overlapped);

}  // namespace moeplan
