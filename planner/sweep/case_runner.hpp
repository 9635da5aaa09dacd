// Execution of single sweep cases: from resolved inputs to an outcome.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/case_inputs.hpp"
#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::sweep {

enum class CaseStatus { Done, Infeasible, BadInput };
inline constexpr std::array<std::pair<CaseStatus, std::string_view>, 3> kCaseStatusNames{
    {{CaseStatus::Done, "done"}, {CaseStatus::Infeasible, "infeasible"}, {CaseStatus::BadInput, "bad_input"}}};

/// The result values of a case.
struct CaseOutcome {
  CaseStatus status = CaseStatus::Done;
  std::string reason{};         // why the case is not done; one line
  Cell gpus{};                  // number of GPUs of the case's cluster
  Cell tokens{};                // per iteration; for a layer, on all ranks together
  std::vector<Cell> outputs{};  // in the order of SweepSpec::outputs; missing if the case is not done
};

/// A row of the sweep's results.
struct CaseResult {
  std::int64_t number;  // index into SweepSpec::cases
  std::string key;
  std::vector<Cell> settings;  // in the order of SweepSpec::columns()
  CaseOutcome outcome;
  double wall_s;
};

/// Thrown by run() when `stop` becomes true.
struct Interrupted {};

/// Runs cases. Thread-safe.
///
/// Cases that differ only in irrelevant inputs share one search or simulation. Irrelevant are names, origins and
/// settings that only serve expressions; the routing scenario if a capacity factor determines the counts; and for a
/// single layer, how its tokens are composed of batch and sequence, and the rest of the model. The computation sees
/// only the relevant inputs, so equal cases have equal results no matter which of them runs first.
class CaseRunner {
 public:
  /// The sweep must outlive this. `threads` is the number of threads for the search of one case.
  CaseRunner(const SweepSpec& sweep, int threads) : sweep_(sweep), threads_(threads), resolver_(sweep) {}

  [[nodiscard]] CaseResolver& resolver() { return resolver_; }

  /// The result of one case. Unreadable inputs and infeasible cases are results too.
  [[nodiscard]] CaseResult run(std::int64_t number, const std::atomic<bool>& stop);

  /// The number of cases that reused the outcome of an equal case.
  [[nodiscard]] std::int64_t shared() const { return asked_ - computed_; }

 private:
  [[nodiscard]] CaseOutcome outcome_of(const CaseInputs& inputs, const std::atomic<bool>& stop);

  const SweepSpec& sweep_;
  int threads_;
  CaseResolver resolver_;
  BoundedCache<CaseOutcome> outcomes_{20'000};  // some kilobyte each
  std::atomic<std::int64_t> asked_ = 0, computed_ = 0;
};

}  // namespace moeplan::sweep
