// What a tenth more of each of the machine's resources would give to a plan, by simulating it again.
//
// The decisions stay: only the machine changes. (A faster NIC may make another plan the best one; that is for `plan` to
// find.) No linear model: each answer is a whole simulation.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan::planner {

/// What can be improved. A link belongs to the tier that it has in the topology: a PCIe tree's links are IntraNode up
/// to the NIC; a GPU's own lane to its NIC beside an NVSwitch is Nic; leaf to spine, or group to group, is Core.
enum class Resource {
  IntraNodeBandwidth,
  NicBandwidth,
  CoreBandwidth,
  LinkLatency,        // of every link; counts where a collective is not measured
  CollectiveStartup,  // software start-up, message overhead, and every measured alpha
  CollectiveRate,     // every measured beta
  GpuFlops,           // every peak; the efficiency curve stays
  HbmBandwidth,
  KernelLaunch  // launch overhead of a kernel
};

struct ResourceInfo {
  Resource resource;
  std::string_view key;     // "nic_bandwidth"
  std::string_view name;    // "NIC bandwidth"
  std::string_view change;  // "+10%" of a rate, "-10%" of a time
  double factor;            // on the values: 1.1 or 0.9; on beta 1 / 1.1
};
[[nodiscard]] const std::vector<ResourceInfo>& resources();

/// Those that this cluster has: no core without core links, no measured rate where none is measured.
[[nodiscard]] std::vector<ResourceInfo> resources_of(const Cluster& cluster);

/// The same machine with the resource's values multiplied.
[[nodiscard]] Cluster scaled(const Cluster& cluster, Resource resource, double factor);

struct Sensitivity {
  ResourceInfo resource;
  SimTime makespan;
  double gain = 0;  // (makespan before - makespan) / makespan before; below 0 it takes longer
};

/// The largest gain first; ties in the order of Resource. One thread a core; the result does not depend on how many.
/// `progress` is told (done, total) from the calling thread.
[[nodiscard]] std::vector<Sensitivity> sensitivities(
    const Program& program, const Cluster& cluster, SimTime makespan,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace moeplan::planner
