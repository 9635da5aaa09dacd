// The hardware of this machine, measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/execution/back_end.hpp"
#include "cuda_runtime/measure/machine_profile.hpp"

namespace moeplan::cli {

struct MeasuredHere {
  runtime::MachineFit fit;
  runtime::MeasuredMachine machine;
  std::vector<runtime::Measured> measured;

  /// A cluster of its own, or to be included by one.
  [[nodiscard]] std::string profile() const;
};

/// Measures with this number of ranks; on GPUs, without one, on all of them. No result if the ranks gave no answer:
/// then `code` is the exit code.
[[nodiscard]] std::optional<MeasuredHere> measure_here(const BackEnd& on, std::optional<std::int64_t> ranks,
                                                       Seconds budget, Seconds time_out, ExitCode& code);

/// The libraries whose figures price a table of operators, as its rows name them; "": none.
struct PricingLibraries {
  std::string gemm, attention, attention_backward;
};

/// Measures a table of operators on one GPU, in the format of `score` (docs/operators.md), whose rows name `gpu`:
/// products, then, in what is left of the budget, attention and kernels through PyTorch. What was not measured of the
/// latter is said on standard error. No table, and `code`, as above.
[[nodiscard]] std::optional<std::string> operator_table_here(const BackEnd& on, const std::string& gpu,
                                                             const PricingLibraries& libraries, Seconds budget,
                                                             Seconds time_out, ExitCode& code);

}  // namespace moeplan::cli
