#include "cuda_runtime/measure/operator_rows.hpp"

#include <fmt/format.h>

#include <string_view>

namespace moeplan::runtime {

namespace {

std::string number_or_empty(std::int64_t n) { return n > 0 ? std::to_string(n) : ""; }

/// What the products are, for the score to price them so (profiler/scores/operator_prediction.cpp).
std::string_view products_of(const Benchmark& b) {
  if (b.products.size() > 1) return "separate products of ";
  return b.dtype == Dtype::Fp8 ? "quantised operands of " : "";
}

std::string line_of(const Benchmark& b, const Measured& measured, const std::string& gpu, const std::string& source) {
  constexpr double kMicroseconds = 1e6;
  constexpr std::string_view kNoAttention = ",,,,,,";  // the seven columns of attention, empty
  GemmShape s = b.products.front();
  const std::int64_t groups = std::ssize(b.products);
  std::int64_t rows = 0;
  if (groups > 1) std::swap(rows, b.phase == GemmPhase::Wgrad ? s.k : s.m);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{:.3f},\"{}{}\"\n", gpu, groups > 1 ? "grouped_gemm" : "gemm",
                     name_of<GemmPhase>(kGemmPhaseNames, b.phase), name_of<Dtype>(kDtypeNames, b.dtype),
                     number_or_empty(s.m), number_or_empty(s.n), number_or_empty(s.k),
                     groups > 1 ? number_or_empty(groups) : "", number_or_empty(rows), kNoAttention,
                     kMicroseconds * measured.median, products_of(b), source);
}

}  // namespace

std::string operator_rows(const std::vector<Benchmark>& benchmarks, const std::vector<Measured>& measured,
                          const std::string& gpu, const std::string& source) {
  std::string out = fmt::format("{}\n", kOperatorColumns);
  for (std::size_t i = 0; i < benchmarks.size(); ++i) {
    if (measured[i].median > 0) out += line_of(benchmarks[i], measured[i], gpu, source);
  }
  return out;
}

}  // namespace moeplan::runtime
