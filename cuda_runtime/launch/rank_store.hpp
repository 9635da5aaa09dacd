// Texts that ranks leave for each other, over TCP: how ranks of several processes and machines find each other without
// MPI. Rank 0 keeps them. A rank that goes without a farewell, or gives up, ends everybody's waiting.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

/// As torchrun and its like say it by RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK, srun by SLURM_PROCID,
/// SLURM_NTASKS and SLURM_LOCALID, mpirun by OMPI_COMM_WORLD_RANK, _SIZE and _LOCAL_RANK.
struct RankPlace {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t local_rank = 0;  // among the ranks of its machine: which GPU it takes
  std::string address = "127.0.0.1";
  std::uint16_t port = 29500;
};
/// Of this process's environment; none: no rank of anything. Raises InputError where it makes no sense.
[[nodiscard]] std::optional<RankPlace> rank_place();

class RankStore {
 public:
  virtual ~RankStore() = default;
  /// A text that nobody has left yet; at most 64 MiB.
  virtual void set(const std::string& key, const std::string& text) = 0;
  /// Waits for it. Raises ExecutionError where it does not come in time, and where a rank is gone.
  [[nodiscard]] virtual std::string get(const std::string& key, Seconds time_out) = 0;
  /// The same of a text that nobody else wants: it is not kept.
  [[nodiscard]] virtual std::string take(const std::string& key, Seconds time_out) = 0;
  /// Raises ExecutionError where a rank is gone or has given up.
  virtual void check() = 0;
  /// Says to all that this rank gives up, and why.
  virtual void give_up(const std::string& why) noexcept = 0;
};

/// Comes back once the rank has found rank 0, whose address and port `place` says; rank 0 listens there itself. Raises
/// ExecutionError where that takes longer than the time-out, or where rank 0 cannot listen.
[[nodiscard]] std::unique_ptr<RankStore> make_rank_store(const RankPlace& place, Seconds time_out);

/// Peers who talk through a store, apart from those of other topics. The store outlives them.
[[nodiscard]] std::unique_ptr<Peers> make_store_peers(RankStore& store, const RankPlace& place, Seconds time_out,
                                                      const std::string& topic);

}  // namespace moeplan::runtime
