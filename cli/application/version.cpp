#include "cli/application/version.hpp"

#include <fmt/format.h>

#include "moeplan_commit.hpp"  // written by cmake/write_commit.cmake; a new commit compiles this file alone

namespace moeplan::cli {

std::string version() { return MOEPLAN_VERSION; }

std::string commit() { return MOEPLAN_COMMIT; }

std::string version_page() {
  const auto built = [](bool is_built) { return is_built ? "built in" : "not built"; };
  return fmt::format("moeplan {}\ncommit {}\nback ends: host (MPI) {}, nccl (CUDA, NCCL) {}\n", version(), commit(),
                     built(MOEPLAN_HAS_MPI), built(MOEPLAN_HAS_CUDA));
}

}  // namespace moeplan::cli
