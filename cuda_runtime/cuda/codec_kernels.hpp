// The launch of codecs, which are compiled without fused multiply-add, so that they give the bytes that a CPU gives.
#pragma once

#include "cuda_runtime/kernels/codec.hpp"

struct CUstream_st;

namespace moeplan::runtime {

// These return the CUDA runtime's error code, 0 on success.
[[nodiscard]] int launch_codec(const kernels::Fp16Codec& codec, CUstream_st* stream);
[[nodiscard]] int launch_codec(const kernels::Int8Codec& codec, CUstream_st* stream);
[[nodiscard]] int launch_codec(const kernels::Fp8BlockCodec& codec, CUstream_st* stream);
[[nodiscard]] int launch_codec(const kernels::ZfpCodec& codec, CUstream_st* stream);

}  // namespace moeplan::runtime
