// The implementation of Device for a GPU, by the CUDA runtime and cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime/device/device.hpp"
#include "cuda_runtime/device/driver/gpu_parts.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

struct GpuFacts {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t multiprocessors = 0;
  int major = 0, minor = 0;      // compute capability
  std::int64_t cache_bytes = 0;  // L2
  std::string bus = {};          // PCI address

  /// Whether products in fp8 are computed: from compute capability 8.9 on.
  [[nodiscard]] bool multiplies_fp8() const { return major > 8 || (major == 8 && minor >= 9); }
};

/// The GPUs visible to this process, or the reason why there are none ("cudaErrorNoDevice: no CUDA-capable device is
/// detected").
struct VisibleGpus {
  std::vector<GpuFacts> gpus;
  std::string problem;
};
[[nodiscard]] VisibleGpus visible_gpus();

class CudaDevice : public Device {
 public:
  /// The native CUDA stream, as NCCL expects it.
  [[nodiscard]] virtual CUstream_st* native(DeviceStream stream) const = 0;
};

/// A device for the GPU of this index among the visible ones, `parts`: of it, one for each rank, which outlive the
/// device; if null or not divided (GpuParts::problem()), ranks share all of it. `rank` is used in messages. Raises
/// ExecutionError.
[[nodiscard]] std::unique_ptr<CudaDevice> make_cuda_device(int index, RankId rank, const GpuParts* parts = nullptr);

}  // namespace moeplan::runtime
