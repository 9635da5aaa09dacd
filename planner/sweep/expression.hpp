// The small language of a sweep's `when:` and `derived:`, and of `query --where`.
//
//   world % (tp * pp) == 0 and not (schedule == 'baseline' and esp > 1)
//
// or, and, not; == != < <= > >= (one comparison, not chained); + - * / %; min(a, b), max(a, b); parentheses; numbers;
// 'texts' in single quotes; names of settings and columns. Conditions are not numbers and numbers are no conditions.
// Texts are compared for equality only, unless both are quantities of one kind: '100 Gbps' < '25 GB/s'. A value that is
// missing (of a case that is not feasible) makes arithmetic on it missing and every comparison with it false.
// At most 4,096 characters and 64 levels of nesting.
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

/// A value of a column: missing, a whole number, a number, or a text.
using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

/// What a scalar of a file is as a cell: a whole number or a number where it reads as one, else a text.
[[nodiscard]] Cell cell_of(std::string_view text);
/// None where it is missing or a text.
[[nodiscard]] std::optional<double> cell_number(const Cell& cell);
/// The shortest text that reads back as the same cell; "" where it is missing.
[[nodiscard]] std::string cell_text(const Cell& cell);

class Expression {
 public:
  /// `names[i]` stands for values[i] below. Raises InputError that names `where` and `key_path`.
  Expression(std::string text, std::span<const std::string> names, Location where, std::string key_path);

  /// Of a condition. Raises InputError where the values do not suit (a text is multiplied, a number is no condition).
  [[nodiscard]] bool holds(std::span<const Cell> values) const;
  /// Of a number or a text; whole numbers are whole.
  [[nodiscard]] Cell value(std::span<const Cell> values) const;

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Indices of the names that it uses.
  [[nodiscard]] std::vector<std::size_t> uses() const;

 private:
  friend class ExpressionParser;
  enum class Op { Or, And, Not, Eq, Ne, Lt, Le, Gt, Ge, Add, Sub, Mul, Div, Mod, Neg, Min, Max, Constant, Name };
  struct Step {
    Op op;
    std::size_t left = 0, right = 0;  // steps; of Name: the name's index
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
  std::vector<Step> steps_;  // operands before what uses them; the last is the whole
};

}  // namespace moeplan::sweep
