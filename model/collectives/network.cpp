#include "model/collectives/network.hpp"

namespace moeplan {

Network read_network(MapReader map) {
  Network n{.nics_per_node = map.integer("nics_per_node", 1, 1024),
            .nic_bandwidth = map.quantity<BytesPerSecond>("nic_bandwidth"),
            .base = map.quantity<Seconds>("base", Sign::NonNegative),
            .fits_all = map.boolean_or("fits_all", false)};
  map.finish();
  return n;
}

HostMemory read_host_memory(MapReader map) {
  const HostMemory m{.direct_ranks = map.integer("direct_ranks", 1, 1024),
                     .bandwidth = map.quantity<BytesPerSecond>("bandwidth"),
                     .contention = map.number_or("contention", 0, 0, 10)};
  map.finish();
  return m;
}

}  // namespace moeplan
