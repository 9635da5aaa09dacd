// The mapping of buffer formats to the element formats of kernels.
#pragma once

#include "cuda_runtime/kernels/formats.hpp"
#include "model/machine/dtype.hpp"

namespace moeplan::runtime {

/// The element format of a dtype. One-byte dtypes map to kernels::Format::Bytes.
[[nodiscard]] constexpr kernels::Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp32:
    case Dtype::Tf32: return kernels::Format::Fp32;
    case Dtype::Fp16: return kernels::Format::Fp16;
    case Dtype::Bf16: return kernels::Format::Bf16;
    case Dtype::Fp8:
    case Dtype::Int8: break;
  }
  return kernels::Format::Bytes;
}

}  // namespace moeplan::runtime
