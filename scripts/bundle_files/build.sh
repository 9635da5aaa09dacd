#!/usr/bin/env bash
# Builds moeplan and its GPU back end here, with this machine's compiler, CMake, CUDA toolkit, cuBLAS and NCCL. Arguments
# go to CMake: ./build.sh -DMOEPLAN_CUDA_ARCHITECTURES=90. CUDA_HOME, NCCL_HOME, and for the packages of a Python environment
# MOEPLAN_NVIDIA_PACKAGES=.../site-packages/nvidia say where to look; CXX names the compiler. TARGETS: what to build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
read -ra targets <<<"${TARGETS:-moeplan moeplan-cuda-worker cuda_values_tests}"
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release "$@"
[[ ${#targets[@]} == 1 && ${targets[0]} == none ]] || cmake --build build --parallel "$(nproc)" --target "${targets[@]}"
