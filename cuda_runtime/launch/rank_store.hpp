// A key-value store of texts over TCP, by which ranks of several processes and nodes rendezvous without MPI. Rank 0
// hosts the store. If a rank disconnects without a farewell, or calls give_up(), the waits of all ranks fail.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

/// The rank of a process as set by its launcher: torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK),
/// srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID) or mpirun (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK).
struct RankPlace {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t local_rank = 0;  // index among the ranks of its node; selects the GPU
  std::string address = "127.0.0.1";
  std::uint16_t port = 29500;
  std::string secret = {};  // known to the ranks of one job: rank 0 turns away who does not know it
};
/// The rank given by this process's environment; its secret is MOEPLAN_RANK_SECRET, else the name that the launcher
/// gave the job, which keeps jobs apart but is no secret on a shared machine. None if the process was not started as a
/// rank. Raises InputError if the variables are inconsistent.
[[nodiscard]] std::optional<RankPlace> rank_place();

class RankStore {
 public:
  virtual ~RankStore() = default;
  /// Stores a text of at most 64 MiB under a new key.
  virtual void set(const std::string& key, const std::string& text) = 0;
  /// Waits for the text of a key. Raises ExecutionError if it does not arrive in time, or if a rank has terminated.
  [[nodiscard]] virtual std::string get(const std::string& key, Seconds time_out) = 0;
  /// Like get(), but removes the text from the store; for texts with a single reader.
  [[nodiscard]] virtual std::string take(const std::string& key, Seconds time_out) = 0;
  /// Raises ExecutionError if a rank has terminated or given up.
  virtual void check() = 0;
  /// Notifies all ranks that this rank gives up, and why.
  virtual void give_up(const std::string& why) noexcept = 0;
};

/// Connects to the store of rank 0, at the address and port of `place`; rank 0 itself listens there. Raises
/// ExecutionError if that exceeds the time-out, or if rank 0 cannot listen.
[[nodiscard]] std::unique_ptr<RankStore> make_rank_store(const RankPlace& place, Seconds time_out);

/// Peers that communicate through a store, separately for each topic. The store must outlive them.
[[nodiscard]] std::unique_ptr<Peers> make_store_peers(RankStore& store, const RankPlace& place, Seconds time_out,
                                                      const std::string& topic);

}  // namespace moeplan::runtime
