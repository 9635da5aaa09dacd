#include "cli/application/version.hpp"

#include <fmt/format.h>

#include "cuda_runtime/validate/launch.hpp"
#include "moeplan_commit.hpp"  // written by cmake/write_commit.cmake; a new commit compiles this file alone

namespace moeplan::cli {

std::string version() { return MOEPLAN_VERSION; }

std::string commit() { return MOEPLAN_COMMIT; }

std::string version_page() { return fmt::format("moeplan {}\ncommit {}\n", version(), commit()); }

std::string back_ends_line() {
  const auto state = [](const validate::Worker& worker) {
    return validate::find_worker(worker) ? "installed" : "not installed";
  };
  return fmt::format("back ends: host (MPI) {}, nccl (CUDA, NCCL) {}\n", state(validate::kHostWorker),
                     state(validate::kCudaWorker));
}

}  // namespace moeplan::cli
