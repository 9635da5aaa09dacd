// Attention, grouped products and memory-bound kernels as rows of a table of operators, measured through PyTorch by a
// Python program (torch_operators.py).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_runtime/launch/run_program.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

struct TorchRequest {
  std::string python;                         // the interpreter: a name on PATH, or a path
  std::string gpu;                            // that the rows name
  std::string attention, attention_backward;  // the libraries whose figures price it; "": none
  Seconds budget;                             // no row is begun after it
  Seconds grace;                              // after the budget, for the row that was begun
};

struct TorchRows {
  std::string rows;                // lines in the columns of operator_rows(), without a header
  std::vector<std::string> notes;  // what was left out and why, a line each
  bool is_interrupted = false;     // no row counts then
};

/// The value of MOEPLAN_PYTHON, or python3.
[[nodiscard]] std::string python_interpreter();

/// Runs the program, written into `folder`. Without an interpreter, PyTorch or a GPU that it sees there are no rows,
/// and a note says why and what to do; if the program fails later, its rows until then are kept. Raises ExecutionError
/// if no process can be created.
[[nodiscard]] TorchRows torch_rows(const TorchRequest& request, const std::filesystem::path& folder);

/// The rows of a program that has ended: lines that are no row of this GPU's table, with a time above 0, are left out.
[[nodiscard]] TorchRows rows_of(const ProgramEnd& end, std::string_view gpu);

}  // namespace moeplan::runtime
