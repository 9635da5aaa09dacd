// Instructions of Hopper that C++ has no words for (PTX ISA: mbarrier, cp.async.bulk.tensor, wgmma). Included by one file,
// in its namespace of its own.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace moeplan::runtime::hopper {

/// Operands are 16 bits wide and in shared memory, in boxes: rows of 64 elements, 128 bytes, which are swizzled.
constexpr int kElement = 2;
constexpr int kBox = 64;
/// Bytes of 64 of these rows.
constexpr int kBlock = kBox * kBox * kElement;

__device__ inline std::uint32_t shared_address(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}

// Barriers in shared memory.
__device__ inline void initialise(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ inline void expect_bytes(std::uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Loads a box whose first element has these coordinates; what is outside of the matrix becomes 0.
__device__ inline void load_box(void* to, const CUtensorMap* map, int inner, int outer, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(inner), "r"(outer)
      : "memory");
}

/// Loads `rows` rows of A, or columns of B, from `first` on, and kDepth of k. If k is not the dimension along which
/// they are contiguous (`is_strided`), they are boxes of 64.
template <bool is_strided, int rows>
__device__ inline void load_operand(char* to, const CUtensorMap* map, int first, int k, std::uint64_t* barrier) {
  if (is_strided) {
#pragma unroll
    for (int i = 0; i < rows / kBox; ++i) load_box(to + i * kBlock, map, first + kBox * i, k, barrier);
  } else {
    load_box(to, map, k, first, barrier);
  }
}

/// The descriptor of an operand with swizzled rows of 128 bytes (PTX ISA, "Matrix-Descriptor Format"): 8 rows every
/// 1024 bytes, and blocks of 64 every kBlock bytes.
__device__ inline std::uint64_t descriptor(const void* data) {
  constexpr std::uint64_t kFields =
      (std::uint64_t{1} << 62U) | (std::uint64_t{1024 >> 4} << 32U) | (std::uint64_t{kBlock >> 4} << 16U);
  return kFields | ((shared_address(data) & 0x3FFFFU) >> 4U);
}

// D = A B, or D += A B if `keeps`: 64 rows, 16 of k. Operands of these instructions: D, A, B, keeps, and whether A and
// B are strided along k.
#define MOEPLAN_MULTIPLY(COLUMNS, TYPE, D, A, B, KEEPS, STRIDED)                                                       \
  "{\n"                                                                                                                \
  ".reg .pred keeps;\n"                                                                                                \
  "setp.ne.b32 keeps, " KEEPS                                                                                          \
  ", 0;\n"                                                                                                             \
  "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" D "}, " A ", " B ", keeps, 1, 1, " STRIDED \
  ";\n"                                                                                                                \
  "}\n"
#define MOEPLAN_64_NAMES                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MOEPLAN_128_NAMES                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MOEPLAN_64_RESULTS                                                                                    \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
      "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),  \
      "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), \
      "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), \
      "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), \
      "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define MOEPLAN_128_RESULTS                                                                                           \
  MOEPLAN_64_RESULTS, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]),      \
      "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),         \
      "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]),         \
      "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]),         \
      "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]),      \
      "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), \
      "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), \
      "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), \
      "+f"(d[127])
#define MOEPLAN_INPUTS "l"(a), "l"(b), "r"(keeps), "n"(is_a_strided ? 1 : 0), "n"(is_b_strided ? 1 : 0)

// The function of `COUNT` results a thread; the other arguments are those of MOEPLAN_MULTIPLY.
#define MOEPLAN_MULTIPLY_FUNCTION(COUNT, COLUMNS, A, B, KEEPS, STRIDED)                                    \
  template <bool is_fp16, bool is_a_strided, bool is_b_strided>                                            \
  __device__ inline void multiply(float (&d)[COUNT], std::uint64_t a, std::uint64_t b, int keeps) {         \
    if constexpr (is_fp16) {                                                                               \
      asm volatile(MOEPLAN_MULTIPLY(COLUMNS, "f16", MOEPLAN_##COUNT##_NAMES, A, B, KEEPS, STRIDED)          \
                   : MOEPLAN_##COUNT##_RESULTS                                                             \
                   : MOEPLAN_INPUTS);                                                                      \
    } else {                                                                                               \
      asm volatile(MOEPLAN_MULTIPLY(COLUMNS, "bf16", MOEPLAN_##COUNT##_NAMES, A, B, KEEPS, STRIDED)         \
                   : MOEPLAN_##COUNT##_RESULTS                                                             \
                   : MOEPLAN_INPUTS);                                                                      \
    }                                                                                                      \
  }
MOEPLAN_MULTIPLY_FUNCTION(64, "128", "%64", "%65", "%66", "%67, %68")
MOEPLAN_MULTIPLY_FUNCTION(128, "256", "%128", "%129", "%130", "%131, %132")
#undef MOEPLAN_MULTIPLY_FUNCTION
#undef MOEPLAN_INPUTS
#undef MOEPLAN_128_RESULTS
#undef MOEPLAN_64_RESULTS
#undef MOEPLAN_128_NAMES
#undef MOEPLAN_64_NAMES
#undef MOEPLAN_MULTIPLY

}  // namespace moeplan::runtime::hopper
