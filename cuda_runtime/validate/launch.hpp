// Ranks on the host back end: started here with mpirun, or those that mpirun or srun has started already.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/rank_progress.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::validate {

/// What mpirun or srun says of this process in its environment.
struct StartedRank {
  std::int64_t rank;
  std::int64_t ranks;
};
[[nodiscard]] std::optional<StartedRank> started_rank();

/// `moeplan-host-worker` beside this executable. Raises InputError where it was not built.
[[nodiscard]] std::filesystem::path host_worker();

/// The command that starts so many ranks here, oversubscribed and giving way to each other where cores are few.
[[nodiscard]] std::vector<std::string> mpirun_command(std::int64_t ranks, const std::vector<std::string>& worker);

struct Launched {
  bool done = false;         // every rank ended well
  bool interrupted = false;  // SIGINT or SIGTERM came
  std::string problem;       // else: what went wrong; the rank and its operation where one is gone
};

/// Runs a command of ranks to its end. What they write on standard error comes through, unless one fails: then what
/// matters of it is in `problem`. `board`: that of the ranks, or empty. If it takes longer than `limit`, or after an
/// interrupt or the death of a rank, all ranks are ended, the last ones by force after five seconds. Meanwhile
/// `progress` is told how far they are.
[[nodiscard]] Launched launch(const std::vector<std::string>& command, const std::filesystem::path& board,
                              Seconds limit, RankProgress& progress);

/// A directory of its own that goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace moeplan::validate
