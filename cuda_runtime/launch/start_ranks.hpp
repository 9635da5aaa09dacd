// Ranks as processes of this machine, without mpirun.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// Runs a command once a rank, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (rank_store.hpp), and
/// waits for all. 0 where all end with 0, else the code of the first that did not (128 and its number for a signal):
/// the others then have `grace` to end by themselves, and are killed. They are killed too when the starter goes. Raises
/// ExecutionError where no process can be made.
[[nodiscard]] int run_ranks(const std::vector<std::string>& command, std::int64_t ranks, Seconds grace = Seconds(5));

}  // namespace moeplan::runtime
