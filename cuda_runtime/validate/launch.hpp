// The launcher of ranks on the host back end: with mpirun from here, or as ranks that mpirun or srun has already
// started.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/rank_progress.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::validate {

/// The rank of this process according to the environment set by mpirun or srun.
struct StartedRank {
  std::int64_t rank;
  std::int64_t ranks;
};
[[nodiscard]] std::optional<StartedRank> started_rank();

/// A program that executes jobs.
struct Worker {
  const char* name;
  const char* backend;  // the value of --backend that runs it
  const char* origin;   // where it is built and packaged
};
inline constexpr Worker kHostWorker{"moeplan-host-worker", "host",
                                    "is built where MPI is found, and packaged as moeplan-mpi (docs/install.md)"};
inline constexpr Worker kCudaWorker{"moeplan-cuda-worker", "nccl",
                                    "is built where CUDA and NCCL are found, and not packaged (docs/cuda.md)"};
/// The path of a worker, in the folder of this executable; none if it is not installed.
[[nodiscard]] std::optional<std::filesystem::path> find_worker(const Worker& worker);
/// The same; raises InputError if it is not installed.
[[nodiscard]] std::filesystem::path installed_worker(const Worker& worker);

/// The command that starts this many ranks on this host, oversubscribed and yielding the core when idle. MPI's files
/// are in `scratch`, since those of an mpirun that is killed stay. Raises InputError where mpirun is not on PATH.
[[nodiscard]] std::vector<std::string> mpirun_command(std::int64_t ranks, const std::vector<std::string>& worker,
                                                      const std::filesystem::path& scratch);

struct Launched {
  bool done = false;         // every rank succeeded
  bool interrupted = false;  // by SIGINT or SIGTERM
  std::string problem;       // the error otherwise; names a terminated rank and its operation
};

/// Executes a command that starts ranks, until its end. The ranks' standard error is passed on; if one fails, its
/// relevant part is in `problem` instead. `board`: the ranks' status board, or empty. After `limit`, an interrupt or
/// the death of a rank, all ranks are terminated, the remaining ones by force after five seconds. `progress` is called
/// with the ranks' state meanwhile.
[[nodiscard]] Launched launch(const std::vector<std::string>& command, const std::filesystem::path& board,
                              Seconds limit, RankProgress& progress);

/// A temporary directory, removed on destruction. It is locked while it is in use: one that a killed process has left
/// behind is removed when the next is made.
class ScratchDirectory {
 public:
  /// Raises InputError if there is no room for one, or no directory for temporary files.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace moeplan::validate
