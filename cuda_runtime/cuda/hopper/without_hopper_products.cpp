// For builds that cannot have the kernel.
#include "cuda_runtime/cuda/hopper/hopper_products.hpp"

namespace moeplan::runtime {

bool has_hopper_products() { return false; }
int launch_hopper_products(const GroupedLaunch&, CUstream_st*) {
  constexpr int kNotSupported = 801;  // cudaErrorNotSupported
  return kNotSupported;
}

}  // namespace moeplan::runtime
