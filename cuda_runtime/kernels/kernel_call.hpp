// Every kernel there is, with its arguments.
#pragma once

#include <type_traits>
#include <variant>

#include "cuda_runtime/kernels/activation.hpp"
#include "cuda_runtime/kernels/codec.hpp"
#include "cuda_runtime/kernels/gate.hpp"
#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// A kernel has `items`, width(): how many elements an item has about, for which lanes are wanted, and run().
using KernelCall = std::variant<CopyRows, AddRows, MovePieces, AddPieces, TopK, TopKBackward, SumRows, DecodeBackward,
                                Activation, ActivationBackward, Fp16Codec, Int8Codec, ZfpCodec>;

}  // namespace moeplan::kernels
