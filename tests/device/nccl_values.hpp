// Value tests of all layer strategies on one of the ranks that exchange over NCCL.
#pragma once

#include <cstdint>
#include <string>

#include "cuda_runtime/cuda/nccl_transport.hpp"
#include "cuda_runtime/device/device_world.hpp"
#include "tests/support/value_cases.hpp"

namespace moeplan::tests {

using namespace planner;
using namespace runtime;

/// A selection of layer strategies and the number of executions of each.
struct NcclWays {
  std::int64_t every = 1;  // select every n-th strategy
  std::string only = {};   // select strategies whose name contains this text
  int times = 1;           // consecutive executions of a layer; more than one launches a graph again
};

/// The errors on this rank, one line per case; adds the number of executed strategies to `runs`.
inline std::string wrong_nccl_values(const RankPlace& place, const NcclWays& ways, DeviceOptions options,
                                     Device& device, DeviceTransport& transport, std::int64_t& runs) {
  const RankId rank(static_cast<std::size_t>(place.rank));
  std::string out;
  std::int64_t seen = 0;
  for (const ValueLayer& layer : value_layers(place.ranks)) {
    const ValueCase c(layer);
    for (const auto& run : c.runs()) {
      const std::string name = c.name(run);
      if (name.find(ways.only) == std::string::npos || seen++ % ways.every != 0) continue;
      options.codecs = c.workload.codecs;
      DeviceWorld world(device, transport, {rank}, options);
      double error = 0;
      const std::string problem = c.problem(run, world.backend(0), rank, error, ways.times);
      if (!problem.empty()) out += name + ": " + problem + "\n";
      ++runs;
    }
  }
  return out;
}

}  // namespace moeplan::tests
