// The expression language of a sweep's `when:` and `derived:`, and of `query --where`.
//
//   world % (tp * pp) == 0 and not (schedule == 'baseline' and esp > 1)
//
// Operators are or, and, not; == != < <= > >= (not chained); + - * / %; min(a, b), max(a, b) and parentheses. Operands
// are numbers, 'texts' in single quotes, and names of settings and columns. Conditions and numbers do not convert into
// each other. Texts can only be compared for equality, unless both are quantities of one kind: '100 Gbps' < '25 GB/s'.
// A missing value (of an infeasible case) makes arithmetic on it missing and every comparison with it false. An
// expression has at most 4,096 characters and 64 levels of nesting.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan::sweep {

/// A value in a column: missing, an integer, a floating-point number, or a text.
using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

/// The cell for a scalar of a file: an integer or number if it parses as one, otherwise a text.
[[nodiscard]] Cell cell_of(std::string_view text);
/// The numeric value of a cell; none if it is missing or a text.
[[nodiscard]] std::optional<double> cell_number(const Cell& cell);
/// The shortest text that parses to the same cell; "" if it is missing.
[[nodiscard]] std::string cell_text(const Cell& cell);

/// A parsed expression.
class Expression {
 public:
  /// `names[i]` is bound to values[i] below. Raises InputError that names `where` and `key_path`.
  Expression(std::string text, std::span<const std::string> names, Location where, std::string key_path);

  /// The value of a condition. Raises InputError if the types do not match (a text is multiplied, or the expression is
  /// not a condition).
  [[nodiscard]] bool holds(std::span<const Cell> values) const;
  /// The value of a number or text expression; integer results are integer cells.
  [[nodiscard]] Cell value(std::span<const Cell> values) const;

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Indices of the names that the expression uses.
  [[nodiscard]] std::vector<std::size_t> uses() const;

 private:
  friend class ExpressionParser;
  enum class Op { Or, And, Not, Eq, Ne, Lt, Le, Gt, Ge, Add, Sub, Mul, Div, Mod, Neg, Min, Max, Constant, Name };
  struct Step {
    Op op;
    std::size_t left = 0, right = 0;  // indices of steps; for Name, the index of the name
    Cell constant{};
  };
  using Value = std::variant<bool, Cell>;

  [[nodiscard]] Value evaluated(std::size_t step, std::span<const Cell> values) const;
  [[nodiscard]] bool condition(std::size_t step, std::span<const Cell> values) const;
  [[nodiscard]] Cell plain(std::size_t step, std::span<const Cell> values) const;
  [[nodiscard]] Cell arithmetic(const Step& step, std::span<const Cell> values) const;
  [[nodiscard]] bool comparison(const Step& step, std::span<const Cell> values) const;
  [[noreturn]] void fail(const std::string& message) const;

  std::string text_;
  Location where_;
  std::string key_path_;
  std::vector<Step> steps_;  // operands precede the steps that use them; the last step is the whole expression
};

}  // namespace moeplan::sweep
