// The computing operations of work.hpp on a CPU.
#pragma once

#include <span>

#include "cuda_runtime/host/host_memory.hpp"
#include "cuda_runtime/work.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

using HostBuffers = std::span<HostBuffer>;  // by BufferId

void compute(const GemmWork& work, HostBuffers buffers);  // host_gemm.cpp
void compute(const CopyRowsWork& work, HostBuffers buffers);
void compute(const SumRowsWork& work, HostBuffers buffers);
void compute(const TopKWork& work, HostBuffers buffers);
void compute(const TopKBackwardWork& work, HostBuffers buffers);
void compute(const ActivationWork& work, HostBuffers buffers);
void compute(const ActivationBackwardWork& work, HostBuffers buffers);
void compute(const NormWork& work, HostBuffers buffers);
void compute(const NormBackwardWork& work, HostBuffers buffers);
void compute(const AddWork& work, HostBuffers buffers);
void compute(const DecodeBackwardWork& work, HostBuffers buffers);
void compute(const CodecWork& work, HostBuffers buffers, const CodecOptions& options);
void compute(const OptimizerWork& work, HostBuffers buffers);

}  // namespace moeplan::runtime
