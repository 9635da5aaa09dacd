// Grouped products by Hopper's own instructions: one launch for all products of 16-bit formats.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace moeplan::runtime {

/// A product C = A B, or C += A B, of dense row-major matrices (device.hpp, MatrixProduct).
struct GroupedProduct {
  const void* a;
  const void* b;
  void* c;
  std::int32_t m, n, k;
  bool accumulates;
};

/// Products of one form and format. Addresses, and rows of A, B and C, are multiples of 16 bytes.
struct GroupedLaunch {
  const GroupedProduct* products;
  int count;
  bool transposes_a, transposes_b;  // A is stored as k rows of m; B as n rows of k
  bool is_fp16;                     // of A and B; otherwise bf16
  bool gives_fp32;                  // the format of C; otherwise that of A and B
  int multiprocessors;              // that the stream's kernels run on
};

/// Whether this build has the kernel: from CUDA 12.5 on, built for compute capability 9.0.
[[nodiscard]] bool has_hopper_products();
/// Enqueues the products, on a GPU of compute capability 9.0. Returns the CUDA runtime's error code, 0 on success.
[[nodiscard]] int launch_hopper_products(const GroupedLaunch& launch, CUstream_st* stream);

}  // namespace moeplan::runtime
