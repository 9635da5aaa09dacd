#include "profiler/fits/fit_operators.hpp"

#include <catch2/catch.hpp>

#include "model/operators/operator_models.hpp"
#include "profiler/scores/operator_prediction.hpp"

namespace moeplan::tests::fit_operators_test {

using namespace moeplan::profiler;

namespace {

const std::string kTruth =
    "gpu: mine\n"
    "num_sms: 132\n"
    "gemm:\n"
    "  - {format: bf16, library: mine, launch: 3 us, math: 700 TFLOP/s, power: 0, read: 3000 GB/s, write: 2000 GB/s,\n"
    "     l2: 20000 GB/s, residency: 0, tile_start: 1 us, k_step: 0 us}\n"
    "kernels:\n"
    "  - {kernel: rms_norm, implementation: fast, launch: 4 us, bytes_per_element: 4, memory: 3000 GB/s}\n"
    "origins: {\"\": \"assumed: a test\"}\n";

Node file() { return parse_yaml(kTruth, "mine.yaml"); }

OperatorRow forward_row(const std::string& kind, std::int64_t m, std::int64_t n, std::int64_t k) {
  OperatorRow row;
  row.gpu = "mine";
  row.kind = kind;
  row.phase = "forward";
  row.format = "bf16";
  row.m = m;
  row.n = n;
  row.k = k;
  return row;
}

/// The products and kernels of `file` with their times by it.
std::vector<OperatorRow> measured(const std::string& source) {
  const OperatorModels truth = read_operator_models(file());
  std::vector<OperatorRow> rows;
  for (const std::int64_t m : {1, 16, 128, 1024, 8192}) {
    for (const std::int64_t n : {128, 1024, 16384}) {
      for (const std::int64_t k : {128, 2048, 16384}) {
        OperatorRow row = forward_row("gemm", m, n, k);
        row.source = "mine";
        row.time = *prediction_of(row, truth).time;
        row.source = source;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

double number(const Node& document, std::size_t entry, const char* key) {
  const std::string text = document.find("gemm")->items.at(entry).find(key)->scalar;
  return std::stod(text.substr(0, text.find(' ')));
}

}  // namespace

TEST_CASE("A fit finds the numbers that made the measurements") {
  Node start = file();
  start.find("gemm")->items[0].set("launch", Node::text("5 us"));
  start.find("gemm")->items[0].set("math", Node::text("900 TFLOP/s"));
  start.find("gemm")->items[0].set("read", Node::text("4000 GB/s"));
  const FittedOperators fitted = fit_operators(start, measured("mine, a log"), "t.csv");
  REQUIRE(fitted.fits.size() == 1);
  CHECK_FALSE(fitted.fits[0].is_new);
  CHECK(fitted.fits[0].path == "gemm[0]");
  CHECK(fitted.fits[0].before.mape > 0.1);
  CHECK(fitted.fits[0].after.mape < 0.02);
  CHECK(fitted.fits[0].after.scored < 45);  // judged by rows that it was not fitted to
  CHECK(number(fitted.document, 0, "launch") == Approx(3).epsilon(0.02));
  CHECK(number(fitted.document, 0, "math") == Approx(700).epsilon(0.02));
  CHECK(number(fitted.document, 0, "read") == Approx(3000).epsilon(0.02));
  CHECK(number(fitted.document, 0, "power") == 0);
  const std::string& origin = fitted.document.find("origins")->find("gemm[0]")->scalar;
  CHECK_THAT(origin, Catch::StartsWith("measured: t.csv, 45 rows, mean error ") && Catch::EndsWith(" rows held out"));
  CHECK(read_operator_models(fitted.document).gemm.size() == 1);
}

TEST_CASE("A fit keeps to numbers that a file can have") {
  std::vector<OperatorRow> rows = measured("mine");
  for (OperatorRow& row : rows) {  // as if operands took no time
    row.time = Seconds(3e-6 + 2.0 * static_cast<double>(row.m) * static_cast<double>(row.n * row.k) / 700e12);
  }
  Node start = file();
  start.find("gemm")->items[0].set("residency", Node::number(90));
  const FittedOperators fitted = fit_operators(start, rows, "t.csv");
  REQUIRE(fitted.fits.size() == 1);
  CHECK(number(fitted.document, 0, "residency") <= 100);
  CHECK(read_operator_models(fitted.document).gemm.size() == 1);
}

TEST_CASE("Rows of a library without figures get an entry of their own") {
  const FittedOperators fitted = fit_operators(file(), measured("cuBLAS 13, a log"), "t.csv");
  REQUIRE(fitted.fits.size() == 1);
  CHECK(fitted.fits[0].is_new);
  const OperatorModels models = read_operator_models(fitted.document);
  REQUIRE(models.gemm.size() == 2);
  CHECK(models.gemm[1].library == "cuBLAS 13");
  CHECK(find_gemm_model(models, MathFormat::Bf16, "cuBLAS 13, another log") == &models.gemm[1]);
}

TEST_CASE("Rows without an entry to begin with are named, once for all") {
  std::vector<OperatorRow> rows = measured("mine");
  for (OperatorRow& row : rows) row.format = "fp8";
  const FittedOperators fitted = fit_operators(file(), rows, "t.csv");
  CHECK(fitted.fits.empty());
  REQUIRE(fitted.unfitted.size() == 1);
  CHECK(fitted.unfitted[0].message ==
        "fp8 gemm of \"mine\" is not fitted: the file has no entry of the kind, format and direction to begin with");
}

TEST_CASE("Too few rows to hold any out are fitted as a whole, and the entry says so") {
  std::vector<OperatorRow> rows;
  for (const std::int64_t m : {1024, 65536}) {
    OperatorRow row = forward_row("kernel", m, 4096, 0);
    row.time = Seconds(2 * (4e-6 + 4.0 * static_cast<double>(m) * 4096 / 3e12));  // twice the time of 4 us and 4 bytes
    row.source = "rms_norm:fast";
    rows.push_back(row);
  }
  const FittedOperators fitted = fit_operators(file(), rows, "t.csv");
  REQUIRE(fitted.fits.size() == 1);
  const OperatorModels models = read_operator_models(fitted.document);
  CHECK(models.kernels.at(0).fits_all);
  CHECK(models.kernels.at(0).bytes_per_element == Approx(8).epsilon(0.02));
  CHECK(models.kernels.at(0).launch.value() == Approx(8e-6).epsilon(0.05));
}

}  // namespace moeplan::tests::fit_operators_test
