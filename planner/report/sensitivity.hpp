// Sensitivity of a plan to the cluster's resources: the makespan with each resource improved by 10%.
//
// The decisions stay fixed and only the cluster changes. (A faster NIC may make another plan the best one; finding it
// is the task of `plan`.) Every value comes from a complete simulation, not from a linear model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan::planner {

/// A resource that can be improved. A link belongs to its tier in the topology: the links of a PCIe tree are IntraNode
/// up to the NIC; a GPU's own lane to its NIC, where GPUs are connected by NVSwitch, is Nic; leaf to spine, or group to
/// group, is Core.
enum class Resource {
  IntraNodeBandwidth,
  NicBandwidth,
  CoreBandwidth,
  LinkLatency,        // of every link; has an effect where a collective is not measured
  CollectiveStartup,  // software start-up, message overhead, and every measured alpha or latency
  CollectiveRate,     // every measured beta
  GpuFlops,           // every peak; the efficiency curve is unchanged
  HbmBandwidth,
  KernelLaunch,  // launch overhead of a kernel
  Host           // time of the host CPU to launch an operation
};

/// How a resource is named and improved.
struct ResourceInfo {
  Resource resource;
  std::string_view key;     // "nic_bandwidth"
  std::string_view name;    // "NIC bandwidth"
  std::string_view change;  // "+10%" for a bandwidth or peak, "-10%" for a time
  double factor;            // multiplies the values: 1.1 or 0.9; 1 / 1.1 for beta
};
[[nodiscard]] const std::vector<ResourceInfo>& resources();

/// The resources that this cluster has: no core bandwidth without core links, no measured beta without measurements.
[[nodiscard]] std::vector<ResourceInfo> resources_of(const Cluster& cluster);

/// A copy of the cluster with the resource's values multiplied by `factor`.
[[nodiscard]] Cluster scaled(const Cluster& cluster, Resource resource, double factor);

/// The result for one resource.
struct Sensitivity {
  ResourceInfo resource;
  SimTime makespan;
  double gain = 0;  // (makespan before - makespan) / makespan before; negative if the change costs time
};

/// The sensitivity to every resource of the cluster, the largest gain first; ties in the order of Resource. Uses one
/// thread per core; the result does not depend on their number. `progress` receives (done, total) on the calling
/// thread.
[[nodiscard]] std::vector<Sensitivity> sensitivities(
    const Program& program, const Cluster& cluster, SimTime makespan,
    const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace moeplan::planner
