#include "planner/sweep/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <optional>

#include "model/text/unit_text.hpp"

namespace moeplan::sweep {

namespace {

constexpr std::size_t kLongest = 4096;
constexpr int kDeepest = 64;
constexpr double kMostWhole = 9007199254740992.0;  // 2^53: integers up to it are exact

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c) || c == '.' || c == '[' || c == ']'; }

Cell of_number(double x) {
  if (x == std::floor(x) && std::abs(x) <= kMostWhole) return static_cast<std::int64_t>(x);
  return x;
}

template <class Q>
std::optional<std::partial_ordering> compared_as(const std::string& a, const std::string& b) {
  const Parsed<Q> x = parse_quantity<Q>(a), y = parse_quantity<Q>(b);
  if (!std::holds_alternative<Q>(x) || !std::holds_alternative<Q>(y)) return std::nullopt;
  return std::get<Q>(x).value() <=> std::get<Q>(y).value();
}

std::optional<std::partial_ordering> compared_as_quantities(const std::string& a, const std::string& b) {
  if (const auto order = compared_as<BytesPerSecond>(a, b)) return order;
  if (const auto order = compared_as<Bytes>(a, b)) return order;
  if (const auto order = compared_as<Seconds>(a, b)) return order;
  if (const auto order = compared_as<SecondsPerByte>(a, b)) return order;
  return compared_as<FlopsPerSecond>(a, b);
}

}  // namespace

Cell cell_of(std::string_view text) {
  if (const auto whole = parse_integer(text); std::holds_alternative<long long>(whole)) {
    return std::int64_t{std::get<long long>(whole)};
  }
  if (const auto number = parse_number(text); std::holds_alternative<double>(number)) return std::get<double>(number);
  return std::string(text);
}

std::optional<double> cell_number(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  return std::nullopt;
}

std::string cell_text(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&cell)) return exact(*number);
  const auto* text = std::get_if<std::string>(&cell);
  return text ? *text : "";
}

/// Recursive-descent parser with one function per level of precedence.
class ExpressionParser {
 public:
  ExpressionParser(Expression& out, std::span<const std::string> names) : out_(out), names_(names) {}

  void parse() {
    if (out_.text_.size() > kLongest) out_.fail(fmt::format("is longer than {} characters", kLongest));
    next();
    (void)either();
    if (!token_.empty()) unexpected("the end");
  }

 private:
  using Op = Expression::Op;

  std::size_t add(Op op, std::size_t left = 0, std::size_t right = 0, Cell constant = {}) {
    out_.steps_.push_back({op, left, right, std::move(constant)});
    return out_.steps_.size() - 1;
  }

  [[noreturn]] void unexpected(const std::string& expected) const {
    out_.fail(fmt::format("at character {}: expected {}, not {}", begin_ + 1, expected,
                          token_.empty() ? "the end" : in_quotes(token_)));
  }

  char at(std::size_t i) const { return i < out_.text_.size() ? out_.text_[i] : '\0'; }

  /// Reads the next token; "" at the end.
  void next() {
    while (at(end_) == ' ') ++end_;
    begin_ = end_;
    const char c = at(end_);
    if (starts_name(c)) {
      while (continues_name(at(end_))) ++end_;
    } else if (is_digit(c) || c == '.') {
      while (is_digit(at(end_)) || at(end_) == '.' || at(end_) == 'e' ||
             ((at(end_) == '-' || at(end_) == '+') && at(end_ - 1) == 'e')) {
        ++end_;
      }
    } else if (c == '\'') {
      const std::size_t close = out_.text_.find('\'', end_ + 1);
      if (close == std::string::npos) out_.fail(fmt::format("at character {}: a text without its end", begin_ + 1));
      end_ = close + 1;
    } else if ((c == '=' || c == '!' || c == '<' || c == '>') && at(end_ + 1) == '=') {
      end_ += 2;
    } else if (c != '\0') {
      ++end_;
    } else if (begin_ < out_.text_.size()) {
      out_.fail("contains a NUL");
    }
    token_ = out_.text_.substr(begin_, end_ - begin_);
  }

  bool take(std::string_view token) {
    if (token_ != token) return false;
    next();
    return true;
  }

  std::size_t either() {
    std::size_t left = both();
    while (take("or")) left = add(Op::Or, left, both());
    return left;
  }

  std::size_t both() {
    std::size_t left = negated();
    while (take("and")) left = add(Op::And, left, negated());
    return left;
  }

  std::size_t negated() {
    if (!take("not")) return compared();
    const Level level(*this);
    return add(Op::Not, negated());
  }

  std::size_t compared() {
    const std::size_t left = sum();
    const auto op = [&]() -> std::optional<Op> {
      if (take("==")) return Op::Eq;
      if (take("!=")) return Op::Ne;
      if (take("<=")) return Op::Le;
      if (take(">=")) return Op::Ge;
      if (take("<")) return Op::Lt;
      if (take(">")) return Op::Gt;
      return std::nullopt;
    }();
    if (!op) return left;
    return add(*op, left, sum());
  }

  std::size_t sum() {
    std::size_t left = product();
    while (true) {
      if (take("+")) {
        left = add(Op::Add, left, product());
      } else if (take("-")) {
        left = add(Op::Sub, left, product());
      } else {
        return left;
      }
    }
  }

  std::size_t product() {
    std::size_t left = factor();
    while (true) {
      if (take("*")) {
        left = add(Op::Mul, left, factor());
      } else if (take("/")) {
        left = add(Op::Div, left, factor());
      } else if (take("%")) {
        left = add(Op::Mod, left, factor());
      } else {
        return left;
      }
    }
  }

  std::size_t factor() {
    if (!take("-")) return primary();
    const Level level(*this);
    return add(Op::Neg, factor());
  }

  std::size_t primary() {
    const Level level(*this);
    if (take("(")) {
      const std::size_t inner = either();
      if (!take(")")) unexpected("\")\"");
      return inner;
    }
    if (token_ == "min" || token_ == "max") return extreme();
    if (token_.empty()) unexpected("a value");
    if (starts_name(token_.front())) return name();
    if (token_.front() == '\'') {
      const std::string text = token_.substr(1, token_.size() - 2);
      next();
      return add(Op::Constant, 0, 0, text);
    }
    const auto number = parse_number(token_);
    if (!std::holds_alternative<double>(number)) unexpected("a value");
    next();
    return add(Op::Constant, 0, 0, of_number(std::get<double>(number)));
  }

  std::size_t extreme() {
    const Op op = token_ == "min" ? Op::Min : Op::Max;
    next();
    if (!take("(")) unexpected("\"(\"");
    const std::size_t left = sum();
    if (!take(",")) unexpected("\",\"");
    const std::size_t right = sum();
    if (!take(")")) unexpected("\")\"");
    return add(op, left, right);
  }

  std::size_t name() {
    if (token_ == "and" || token_ == "or" || token_ == "not") unexpected("a value");
    const auto found = std::find(names_.begin(), names_.end(), token_);
    if (found == names_.end()) {
      out_.fail(fmt::format("{} is no name of this sweep{}", in_quotes(token_), suggestion(token_, names_)));
    }
    next();
    return add(Op::Name, static_cast<std::size_t>(found - names_.begin()));
  }

  struct Level {
    explicit Level(ExpressionParser& p) : parser(p) {
      if (++parser.depth_ > kDeepest) parser.out_.fail(fmt::format("is nested deeper than {} levels", kDeepest));
    }
    ~Level() { --parser.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ExpressionParser& parser;
  };

  Expression& out_;
  std::span<const std::string> names_;
  std::size_t begin_ = 0, end_ = 0;
  std::string token_;
  int depth_ = 0;
};

Expression::Expression(std::string text, std::span<const std::string> names, Location where, std::string key_path)
    : text_(std::move(text)), where_(std::move(where)), key_path_(std::move(key_path)) {
  ExpressionParser(*this, names).parse();
}

void Expression::fail(const std::string& message) const {
  throw InputError({where_, key_path_, fmt::format("{}: {}", in_quotes(text_), message)});
}

bool Expression::holds(std::span<const Cell> values) const { return condition(steps_.size() - 1, values); }

Cell Expression::value(std::span<const Cell> values) const { return plain(steps_.size() - 1, values); }

std::vector<std::size_t> Expression::uses() const {
  std::vector<std::size_t> out;
  for (const Step& s : steps_) {
    if (s.op == Op::Name) out.push_back(s.left);
  }
  return out;
}

bool Expression::condition(std::size_t step, std::span<const Cell> values) const {
  const Value v = evaluated(step, values);
  if (const auto* truth = std::get_if<bool>(&v)) return *truth;
  fail(fmt::format("{} is no condition; write a comparison", in_quotes(cell_text(std::get<Cell>(v)))));
}

Cell Expression::plain(std::size_t step, std::span<const Cell> values) const {
  Value v = evaluated(step, values);
  if (auto* cell = std::get_if<Cell>(&v)) return std::move(*cell);
  fail("a condition stands where a number or a text is expected");
}

Expression::Value Expression::evaluated(std::size_t step, std::span<const Cell> values) const {
  const Step& s = steps_[step];
  switch (s.op) {
    case Op::Or: return condition(s.left, values) || condition(s.right, values);
    case Op::And: return condition(s.left, values) && condition(s.right, values);
    case Op::Not: return !condition(s.left, values);
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge: return comparison(s, values);
    case Op::Constant: return s.constant;
    case Op::Name: return values[s.left];
    default: return arithmetic(s, values);
  }
}

bool Expression::comparison(const Step& s, std::span<const Cell> values) const {
  const Cell left = plain(s.left, values), right = plain(s.right, values);
  if (std::holds_alternative<std::monostate>(left) || std::holds_alternative<std::monostate>(right)) return false;
  const auto* a = std::get_if<std::string>(&left);
  const auto* b = std::get_if<std::string>(&right);
  if ((a == nullptr) != (b == nullptr)) {
    fail(fmt::format("{} and {} cannot be compared: one is a text, the other a number", in_quotes(cell_text(left)),
                     in_quotes(cell_text(right))));
  }
  std::partial_ordering order = std::partial_ordering::unordered;
  if (a == nullptr) {
    order = *cell_number(left) <=> *cell_number(right);
  } else if (const auto quantities = compared_as_quantities(*a, *b)) {
    order = *quantities;
  } else if (s.op == Op::Eq || s.op == Op::Ne) {
    order = *a == *b ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
  } else {
    fail(fmt::format("{} and {} have no order: they are not quantities of one kind", in_quotes(*a), in_quotes(*b)));
  }
  switch (s.op) {
    case Op::Eq: return order == 0;
    case Op::Ne: return order != 0;
    case Op::Lt: return order < 0;
    case Op::Le: return order <= 0;
    case Op::Gt: return order > 0;
    default: return order >= 0;
  }
}

Cell Expression::arithmetic(const Step& s, std::span<const Cell> values) const {
  const Cell left = plain(s.left, values), right = s.op == Op::Neg ? Cell(std::int64_t{0}) : plain(s.right, values);
  for (const Cell* cell : {&left, &right}) {
    if (std::holds_alternative<std::monostate>(*cell)) return {};
    if (!cell_number(*cell)) fail(fmt::format("{} is a text; expected a number", in_quotes(cell_text(*cell))));
  }
  const double a = *cell_number(left), b = *cell_number(right);
  if ((s.op == Op::Div || s.op == Op::Mod) && b == 0) fail("divides by zero");
  switch (s.op) {
    case Op::Add: return of_number(a + b);
    case Op::Sub: return of_number(a - b);
    case Op::Mul: return of_number(a * b);
    case Op::Div: return of_number(a / b);
    case Op::Mod: return of_number(a - b * std::floor(a / b));
    case Op::Min: return of_number(std::min(a, b));
    case Op::Max: return of_number(std::max(a, b));
    default: return of_number(-a);
  }
}

}  // namespace moeplan::sweep
