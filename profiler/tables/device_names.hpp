// GPUs by the names that drivers give them, as nccl-tests prints them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moeplan::profiler {

/// The GPU of configs/gpus with this name of a device, e.g. h100_sxm for "NVIDIA H100 80GB HBM3"; none if there is
/// none: "NVIDIA H100 PCIe" is another GPU.
[[nodiscard]] std::optional<std::string> gpu_of_device(std::string_view device);

}  // namespace moeplan::profiler
