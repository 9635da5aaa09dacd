#include "cuda_runtime/measure/benchmark_sizes.hpp"

namespace moeplan::runtime {

const BenchmarkSizes& sizes_of(BenchmarkScale scale) {
  static const BenchmarkSizes kCores{
      .dtype = Dtype::Fp32,
      .peaks = {},
      .columns = 256,
      .rows = {4, 64, 512, 2048},
      .codec_rows = 2,
      .products = {{8, 32, 32},
                   {16, 64, 64},
                   {64, 64, 64},
                   {32, 128, 128},
                   {128, 128, 128},
                   {64, 256, 256},
                   {256, 256, 256},
                   {64, 1024, 256},
                   {256, 512, 256},
                   {256, 1024, 256},
                   {512, 1024, 512}},
      .concurrent = 6,
      // The threads of a core take turns of milliseconds, so that an exchange waits for products: that is no rate.
      .concurrent_products = 0,
      .groups = 4,
      .grouped = 11,
      .sustained = 0,
      .bytes = {1 << 12, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23},
      .paired = {1 << 12, 1 << 17, 1 << 19, 1 << 21},
      .concurrent_bytes = 1 << 21,
  };
  static const BenchmarkSizes kGpus{
      .dtype = Dtype::Bf16,
      .peaks = {Dtype::Fp8, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32},
      .columns = 4096,
      .rows = {8, 512, 4096, 32768},
      .codec_rows = 2,
      .products = {{128, 512, 512},
                   {256, 1024, 512},
                   {512, 1024, 1024},
                   {1024, 2048, 1024},
                   {1024, 4096, 2048},
                   {2048, 4096, 4096},
                   {4096, 4096, 4096},
                   {4096, 14336, 4096},
                   {8192, 8192, 8192}},
      .concurrent = 4,
      .concurrent_products = 8,  // assumed: 64 MiB at 50 GB/s last as long, on whole GPUs
      .groups = 8,
      .grouped = 7,
      .sustained = 200,  // assumed: 0.3 s at 800 TFLOP/s, longer than power limits take to act
      .bytes = {1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28},
      .paired = {1 << 15, 1 << 20, 1 << 24, 1 << 27},
      .concurrent_bytes = 1 << 26,
  };
  return scale == BenchmarkScale::Cores ? kCores : kGpus;
}

const OperatorSizes& operator_sizes() {
  // Of GPT-OSS, Qwen3-30B-A3B and -235B-A22B, Mixtral 8x7B, DeepSeek-V3 and Llama 3 70B.
  static const OperatorSizes kSizes{
      .weights = {{2880, 5120},
                  {2048, 4096},
                  {4096, 9216},
                  {4096, 6144},
                  {7168, 4096},
                  {2048, 7168},
                  {8192, 10240},
                  {8192, 57344},
                  {28672, 8192}},
      .tokens = {128, 1024, 4096, 16384},
      .experts = {{8, {4096, 28672}},
                  {8, {14336, 4096}},
                  {16, {2048, 1536}},
                  {16, {768, 2048}},
                  {32, {7168, 4096}},
                  {32, {2048, 7168}},
                  {4, {2880, 5760}}},
      .rows_of_expert = {64, 256, 1024},
  };
  return kSizes;
}

}  // namespace moeplan::runtime
