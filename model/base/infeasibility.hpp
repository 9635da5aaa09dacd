// The reason why something cannot run: an expected answer, not an error.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace moeplan {

/// The relation that is violated, between what there is (Infeasibility::has) and what is needed (Infeasibility::needs).
enum class Constraint {
  Combination,  // decisions or inputs that exclude each other; there are no numbers
  Multiple,     // `has` must be a multiple of `needs`
  Equal,        // `has` must be `needs`
  Limit,        // `has` must be at least `needs`; numbers of ranks, nodes, experts, layers, chunks ...
  Memory        // the same in bytes per rank
};

/// The violated constraint, by how much, and a short text, by which rejections are counted.
struct Infeasibility {
  Constraint constraint = Constraint::Combination;
  std::string text;
  std::optional<double> has = {}, needs = {};  // absent for Constraint::Combination

  Infeasibility(const char* reason) : text(reason) {}             // NOLINT(google-explicit-constructor)
  Infeasibility(std::string reason) : text(std::move(reason)) {}  // NOLINT(google-explicit-constructor)
  template <class Has, class Needs>
  Infeasibility(Constraint violated, Has there_is, Needs needed, std::string reason)
      : constraint(violated),
        text(std::move(reason)),
        has(static_cast<double>(there_is)),
        needs(static_cast<double>(needed)) {}
  bool operator==(const Infeasibility&) const = default;
};

}  // namespace moeplan
