// The settings of executions on a device.
#pragma once

#include <cstddef>

#include "model/base/quantity.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

struct DeviceOptions {
  CodecOptions codecs = {};
  Seconds time_out{60};                       // of an execution, and of barriers between ranks
  bool captures = false;                      // captures the first execution as a graph and launches it for later ones
  std::size_t slab = std::size_t{64} << 20U;  // bytes per slab (DevicePool)
  /// Bytes written before each execution, so that it finds none of its data in the cache, as for one layer among
  /// others. The host issues the execution during that time.
  std::size_t cold_bytes = 0;
};

}  // namespace moeplan::runtime
