#include "cli/pages/check_report.hpp"

#include <fmt/format.h>

#include "cli/pages/text/wrapping.hpp"

namespace moeplan::cli {

namespace {

const char* met(bool holds) { return holds ? "met" : "MISSED"; }

std::string verdict(const CheckResult& r) {
  if (!r.holds_values) return "do not trust anything here: cases failed, or have wrong values";
  if (r.holds()) return "times and the choice of a schedule can be trusted on this machine";
  if (r.holds_choice && r.holds_order) return "the choice of a schedule can be trusted on this machine, times cannot";
  if (r.holds_choice) return "the predicted best is about as fast as the fastest; trust neither times nor the order";
  if (r.holds_times) return "times can be trusted on this machine; the choice of a schedule cannot";
  return "trust neither times nor the choice of a schedule on this machine";
}

}  // namespace

CheckResult check_result(const SuiteStatistics& s) {
  CheckResult out;
  out.holds_values = s.executed > 0 && s.failed == 0 && s.are_right;
  if (s.executed == 0) return out;
  out.holds_times = s.mape <= kMostMape;
  out.holds_order = s.correlation && *s.correlation >= kLeastCorrelation;
  out.holds_choice = s.regret <= kMostRegret;
  return out;
}

std::string check_page(const ValidateHead& head, const std::vector<ValidatedCase>& cases, const std::string& profile) {
  const SuiteStatistics s = suite_statistics(cases);
  const CheckResult r = check_result(s);
  std::string out = suite_page(head, cases) + "\n";
  out += labelled("profile", profile);
  out += labelled("values", fmt::format("{} cases executed, {} failed; values {}", s.executed, s.failed,
                                        s.are_right ? "right" : "WRONG"));
  out += labelled("times", fmt::format("mean absolute error {:.1f}%, at most {:.0f}%: {}", 100 * s.mape,
                                       100 * kMostMape, met(r.holds_times)));
  out += labelled("order", fmt::format("rank correlation {}, at least {}: {}; the slowest case takes {:.0f}% longer",
                                       s.correlation ? fmt::format("{:.2f}", *s.correlation) : "-", kLeastCorrelation,
                                       met(r.holds_order), 100 * s.spread));
  out += labelled("choice", fmt::format("regret of the predicted best {:.1f}%, at most {:.0f}%: {}", 100 * s.regret,
                                        100 * kMostRegret, met(r.holds_choice)));
  return out + labelled("verdict", verdict(r));
}

}  // namespace moeplan::cli
