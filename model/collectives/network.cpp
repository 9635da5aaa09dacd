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

}  // namespace moeplan
