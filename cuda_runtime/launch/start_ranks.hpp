// The launcher of ranks as local processes, without mpirun.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// Starts a command once per rank, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (rank_store.hpp), and
/// waits for all. Returns 0 if all exit with 0, otherwise the code of the first that did not (128 plus the number for a
/// signal): the others then have `grace` to exit, and are killed afterwards. They are also killed if this process
/// terminates. Raises ExecutionError if a process cannot be created.
[[nodiscard]] int run_ranks(const std::vector<std::string>& command, std::int64_t ranks, Seconds grace = Seconds(5));

}  // namespace moeplan::runtime
