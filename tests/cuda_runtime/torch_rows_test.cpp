// Rows of attention and kernels that a Python program measures; interpreters here are shell scripts.
#include "cuda_runtime/measure/torch_rows.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "cuda_runtime/measure/operator_rows.hpp"
#include "cuda_runtime/measure/torch_program.hpp"
#include "profiler/tables/operator_table.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::runtime {

namespace {

using tests::TemporaryDirectory;

const std::string kAttention =
    "h200_sxm,attention,forward,bf16,,,,,,1024,1,32,8,128,128,1,33.568,\"torch 2.11.0 cudnn, by 3929da2\"\n";
const std::string kKernel = "h200_sxm,kernel,forward,bf16,8192,768,,,,,,,,,,,14.08,\"swiglu:inductor torch 2.11.0\"\n";

TorchRows from(const std::string& out, const std::string& err = "", int code = 0) {
  return rows_of({.code = code, .out = out, .err = err}, "h200_sxm");
}

/// The rows of an interpreter that is this shell script.
TorchRows by_script(const std::string& script, Seconds budget = Seconds(10)) {
  const TemporaryDirectory dir;
  const std::filesystem::path python = dir.write("python", "#!/bin/sh\n" + script);
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  return torch_rows({.python = python,
                     .gpu = "h200_sxm",
                     .attention = "fa3 (retyped",
                     .attention_backward = "",
                     .budget = budget,
                     .grace = Seconds(0.3)},
                    dir.path());
}

}  // namespace

TEST_CASE("Rows become part of a table that score reads") {
  const TorchRows rows = from(kAttention + kKernel, "a warning\nnote: left out: attention backward: why\n");
  CHECK(rows.rows == kAttention + kKernel);
  CHECK(rows.notes == std::vector<std::string>{"left out: attention backward: why"});
  const TemporaryDirectory dir;
  const auto read = profiler::read_operator_table(dir.write("t.csv", std::string(kOperatorColumns) + "\n" + rows.rows));
  REQUIRE(read.size() == 2);
  CHECK((read[0].query_heads == 32 && read[0].causal == 1 && read[0].time.value() == Approx(33.568e-6)));
  CHECK((read[1].m == 8192 && read[1].source == "swiglu:inductor torch 2.11.0"));
}

TEST_CASE("Lines that are no rows are left out, and said") {
  const auto note = [](const std::string& line) {
    const TorchRows rows = from(kAttention + line + "\n" + kKernel);
    CHECK(rows.rows == kAttention + kKernel);
    REQUIRE(rows.notes.size() == 1);
    return rows.notes.front();
  };
  const std::string line2 = "line 2 of the Python program's output is left out: ";
  CHECK(note("hello") == line2 + "it has 1 fields; expected 18");
  CHECK(note("h200_sxm,kernel,forward,bf16,1,1,,,,,,,,,,,0,x") == line2 + "time_us is \"0\"; expected a time above 0");
  CHECK(note("h200_sxm,kernel,forward,bf16,1,1,,,,,,,,,,,nan,x") ==
        line2 + "time_us is \"nan\"; expected a time above 0");
  CHECK(note("h100_sxm,kernel,forward,bf16,1,1,,,,,,,,,,,1,x") == line2 + "gpu is \"h100_sxm\"; expected h200_sxm");
  CHECK(note("h200_sxm,gemms,forward,bf16,1,1,,,,,,,,,,,1,x") ==
        line2 + "kind is \"gemms\"; expected attention, grouped_gemm, kernel");
  CHECK(note("h200_sxm,kernel,forward,bf16,-1,1,,,,,,,,,,,1,x") == line2 + "m is \"-1\"; expected a whole number");
  CHECK(note("h200_sxm,kernel,forward,bf16,1,1,,,,,,,,,,,1,\"x") == line2 + "a quote is not closed");
  SECTION("few lines about many of them") {
    const TorchRows many = from("1\n2\n3\n4\n5\n");
    CHECK(many.rows == "");
    REQUIRE(many.notes.size() == 4);
    CHECK(many.notes.back() == "2 more lines of its output are left out");
  }
}

TEST_CASE("Without PyTorch there are no rows, and a note says what to do") {
  const std::string advice =
      "; set MOEPLAN_PYTHON to a Python with PyTorch 2.5 or later that sees the GPU (docs/cuda.md)";
  const auto note = [](const TorchRows& rows) {
    CHECK(rows.rows == "");
    REQUIRE(rows.notes.size() == 1);
    return rows.notes.front();
  };
  CHECK(note(from("", "warning\npython3 has no PyTorch\n", 1)) ==
        "attention and kernels were not measured: python3 has no PyTorch" + advice);
  CHECK(note(from("", "", 4)) == "attention and kernels were not measured: ended with code 4" + advice);
  const TemporaryDirectory dir;
  CHECK(note(torch_rows({.python = "/no/python",
                         .gpu = "h200_sxm",
                         .attention = "",
                         .attention_backward = "",
                         .budget = Seconds(1),
                         .grace = Seconds(1)},
                        dir.path())) ==
        "attention and kernels were not measured: /no/python: No such file or directory" + advice);
}

TEST_CASE("A program that fails half way keeps its rows") {
  const std::string begun =
      "attention and kernels were measured in part: the Python program failed after 1 rows, which "
      "are in the table: ";
  const TorchRows failed = from(kAttention + "h200_sxm,ker", "Traceback\nRuntimeError: CUDA error\n", 1);
  CHECK(failed.rows == kAttention);
  CHECK(failed.notes == std::vector{begun + "RuntimeError: CUDA error"});
  CHECK(from(kAttention, "", 139).notes == std::vector{begun + "ended by signal 11"});
}

TEST_CASE("The interpreter gets the program, the GPU, the budget and the libraries") {
  const TorchRows rows = by_script(
      "for a; do echo \"note: $a\" >&2; done; grep -q scaled_dot_product_attention \"$1\" && echo 'note: found' >&2");
  REQUIRE(rows.notes.size() == 5);
  CHECK(rows.notes[0].ends_with("/torch_operators.py"));
  CHECK(rows.notes[1] == "h200_sxm");
  CHECK(rows.notes[2] == "10.000");
  CHECK(rows.notes[3] == "--attention-forward=fa3 (retyped");
  CHECK(rows.notes[4] == "found");
}

TEST_CASE("A program that does not end is ended, and its rows are kept", "[slow][alone]") {
  const TorchRows rows = by_script("cat <<'ROWS'\n" + kKernel + "ROWS\nsleep 60\n", Seconds(0.3));
  CHECK(rows.rows == kKernel);
  REQUIRE(rows.notes.size() == 1);
  CHECK(rows.notes.front().ends_with("which are in the table: not done in its time"));
}

TEST_CASE("An interrupted program gives no rows") {
  const TorchRows rows = rows_of({.code = 143, .out = kKernel, .is_interrupted = true}, "h200_sxm");
  CHECK(rows.is_interrupted);
  CHECK(rows.rows == "");
  CHECK(rows.notes.empty());
}

TEST_CASE("The interpreter is python3 unless MOEPLAN_PYTHON names one") {
  const char* before = std::getenv("MOEPLAN_PYTHON");
  const std::string kept = before == nullptr ? "" : before;
  ::unsetenv("MOEPLAN_PYTHON");
  CHECK(python_interpreter() == "python3");
  ::setenv("MOEPLAN_PYTHON", "", 1);
  CHECK(python_interpreter() == "python3");
  ::setenv("MOEPLAN_PYTHON", "/opt/my python", 1);
  CHECK(python_interpreter() == "/opt/my python");
  if (before == nullptr) {
    ::unsetenv("MOEPLAN_PYTHON");
  } else {
    ::setenv("MOEPLAN_PYTHON", kept.c_str(), 1);
  }
}

TEST_CASE("The Python program that is in the library can be parsed") {
  const TemporaryDirectory dir;
  const auto file = dir.write("torch_operators.py", torch_program());
  const ProgramEnd end = run_program({"python3", "-m", "py_compile", file}, Seconds(60));
  if (end.code == 127) {
    WARN("skipped: python3 is not installed");
    return;
  }
  CAPTURE(end.err);
  CHECK(end.code == 0);
}

}  // namespace moeplan::runtime
