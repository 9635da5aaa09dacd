// What becomes of one case of a sweep.
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

struct CaseOutcome {
  CaseStatus status = CaseStatus::Done;
  std::string reason{};         // why it is not done; one line
  Cell gpus{};                  // that the case's cluster has
  Cell tokens{};                // of an iteration; of a layer, on all ranks together
  std::vector<Cell> outputs{};  // as SweepSpec::outputs; missing where it is not done
};

struct CaseResult {
  std::int64_t number;  // index of SweepSpec::cases
  std::string key;
  std::vector<Cell> settings;  // as SweepSpec::columns()
  CaseOutcome outcome;
  double wall_s;
};

/// Thrown by run() where `stop` became true.
struct Interrupted {};

/// Safe to share between threads.
///
/// Cases that differ in nothing that matters share one search or simulation: names, origins, settings that serve
/// expressions only; the routing scenario where a capacity factor rules; and of a layer alone, how its tokens are made
/// of batch and sequence, and what of the model is not that layer. What is run gets only what matters, so that equal
/// cases have equal results whoever is first.
class CaseRunner {
 public:
  /// The sweep must outlive this. `threads` for the search of one case.
  CaseRunner(const SweepSpec& sweep, int threads) : sweep_(sweep), threads_(threads), resolver_(sweep) {}

  [[nodiscard]] CaseResolver& resolver() { return resolver_; }

  /// Inputs that cannot be read and cases that cannot run are results too.
  [[nodiscard]] CaseResult run(std::int64_t number, const std::atomic<bool>& stop);

  /// Cases that were not computed because an equal one had been.
  [[nodiscard]] std::int64_t shared() const { return asked_ - computed_; }

 private:
  [[nodiscard]] CaseOutcome outcome_of(const CaseInputs& inputs, const std::atomic<bool>& stop);

  const SweepSpec& sweep_;
  int threads_;
  CaseResolver resolver_;
  BoundedCache<CaseOutcome> outcomes_{20'000};  // a kilobyte each
  std::atomic<std::int64_t> asked_ = 0, computed_ = 0;
};

}  // namespace moeplan::sweep
