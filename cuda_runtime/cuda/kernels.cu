// The kernels of kernels/ on a GPU, except for codecs (codec_kernels.cu).
#include "cuda_runtime/cuda/codec_kernels.hpp"
#include "cuda_runtime/cuda/launch_kernel.hpp"
#include "cuda_runtime/cuda/run_items.cuh"

namespace moeplan::runtime {

namespace {

template <class Kernel>
int launch(const Kernel& kernel, CUstream_st* stream) {
  return launch_items(kernel, stream);
}
int launch(const kernels::Fp16Codec& codec, CUstream_st* stream) { return launch_codec(codec, stream); }
int launch(const kernels::Int8Codec& codec, CUstream_st* stream) { return launch_codec(codec, stream); }
int launch(const kernels::Fp8BlockCodec& codec, CUstream_st* stream) { return launch_codec(codec, stream); }
int launch(const kernels::ZfpCodec& codec, CUstream_st* stream) { return launch_codec(codec, stream); }

}  // namespace

int launch_kernel(const kernels::KernelCall& call, CUstream_st* stream) {
  return std::visit([&](const auto& kernel) { return launch(kernel, stream); }, call);
}

}  // namespace moeplan::runtime
