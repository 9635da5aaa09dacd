// The closed set of kernels, each with its arguments.
#pragma once

#include <type_traits>
#include <variant>

#include "cuda_runtime/kernels/activation.hpp"
#include "cuda_runtime/kernels/codec.hpp"
#include "cuda_runtime/kernels/gate.hpp"
#include "cuda_runtime/kernels/made_values.hpp"
#include "cuda_runtime/kernels/norm.hpp"
#include "cuda_runtime/kernels/optimizer.hpp"
#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// A kernel call. Every kernel has `items`, run(), and width(): the approximate number of elements per item, from which
/// the number of lanes is chosen.
using KernelCall =
    std::variant<CopyRows, AddRows, MovePieces, AddPieces, TopK, TopKBackward, SumRows, DecodeBackward, Activation,
                 ActivationBackward, NormRows, NormRowsBackward, NormWeightSums, NormWeightGradient, UpdateWeights,
                 MakeValues, Fp16Codec, Int8Codec, Fp8BlockCodec, ZfpCodec>;

}  // namespace moeplan::kernels
