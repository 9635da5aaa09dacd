// The codecs of kernels/ on a GPU.
#include "cuda_runtime/cuda/codec_kernels.hpp"
#include "cuda_runtime/cuda/run_items.cuh"

namespace moeplan::runtime {

int launch_codec(const kernels::Fp16Codec& codec, CUstream_st* stream) { return launch_items(codec, stream); }
int launch_codec(const kernels::Int8Codec& codec, CUstream_st* stream) { return launch_items(codec, stream); }
int launch_codec(const kernels::Fp8BlockCodec& codec, CUstream_st* stream) { return launch_items(codec, stream); }
int launch_codec(const kernels::ZfpCodec& codec, CUstream_st* stream) { return launch_items(codec, stream); }

}  // namespace moeplan::runtime
