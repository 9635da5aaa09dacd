// What limits an operation of a Timeline during an interval.
#pragma once

namespace moeplan {

/// The bottleneck of an interval of the critical path.
enum class Bottleneck {
  TensorCores,   // FLOPs of a product or of attention, at the throughput that they reach
  Memory,        // bytes to and from HBM
  Launch,        // kernel launch
  Host,          // the host CPU, which launches the operations of a block
  HostMemory,    // a copy to or from the host's memory
  Slowed,        // time of a computation beyond its time alone: concurrent communication
  SharedGpu,     // the same if ranks share the GPU: concurrent computation or communication of other ranks
  StartUp,       // a communication before its first byte: measured alpha, or software start-up and latency of the route
  MeasuredRate,  // bytes at the bandwidth of the measured collective (beta)
  SlowedTransfer,  // time beyond that, as long as computation on the same GPU can explain it
  Link,            // bytes over the most loaded link, counting all groups of this communication at once
  SharedLinks,     // time beyond that: other communications shared the links
  Waiting,    // in the communication, if the recorded arrivals of peers cannot explain its end (clocks that disagree)
  Unrecorded  // no recorded operation ended when this operation started
};

}  // namespace moeplan
