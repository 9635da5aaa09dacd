// The GPUs, NICs and links of one node, as tools show them: NCCL's topology files and `nvidia-smi topo -m`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::profiler {

/// Direct NVLinks between two GPUs: `count` of them.
struct NvLinks {
  std::int64_t a;
  std::int64_t b;
  std::int64_t count;
  bool operator==(const NvLinks&) const = default;
};

struct NodeTopology {
  std::int64_t gpus = 0;
  std::set<std::string> gpu_kinds;  // GPUs of configs/gpus by the file's device ids; empty if it shows none
  std::int64_t switch_links = 0;    // NVLinks of a GPU to NVSwitches; 0: none are shown
  std::vector<NvLinks> direct;      // NVLinks between pairs of GPUs, a < b
  // PCIe: GPUs of a switch (0: none) and switches of a host bridge (GPUs if there are none), of the fullest; host
  // bridges.
  std::int64_t gpus_per_switch = 0;
  std::int64_t switches_per_bridge = 1;
  std::int64_t bridges = 1;
  std::optional<BytesPerSecond> pcie_bandwidth;  // of a GPU's slot, each direction; none: not shown
  std::int64_t nics = 0;
  std::optional<BytesPerSecond> nic_bandwidth;  // none: not shown
  std::vector<std::string> left_out;            // what the file shows and this does not hold, as sentences
};

/// The most NVLinks that a GPU has: more of them to its peers in all mean NVSwitches.
inline constexpr std::int64_t kMostNvLinks = 18;

/// Reads a topology file of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): XML with `system`, `cpu`, `pci`, `gpu`,
/// `nvlink`, `nic` and `net`. NICs are the `net` of the most frequent speed, or else the network controllers on PCI.
/// Raises InputError.
[[nodiscard]] NodeTopology read_nccl_topology(const std::string& text, const std::string& file);

/// Reads the matrix that `nvidia-smi topo -m` prints. Where pairs of GPUs have more NVLinks in all than a GPU can
/// have, they go through NVSwitches. Host bridges are the parts between which all pairs are SYS. Raises InputError.
[[nodiscard]] NodeTopology read_nvidia_smi_topology(const std::string& text, const std::string& file);

}  // namespace moeplan::profiler
