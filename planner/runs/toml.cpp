#include "planner/runs/toml.hpp"

#include <fmt/format.h>

#include <cctype>

#include "model/text/source_text.hpp"

namespace moeplan::runs {

namespace {

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

/// Reads a text from its beginning to its end; the first error ends it.
class TomlParser {
 public:
  TomlParser(std::string_view text, const std::string& name) : text_(text), file_(short_name(name)) {}

  Node read() {
    Node root = Node::map();
    root.where = here();
    Node* table = &root;
    for (skip_lines(); !is_at_end(); skip_lines()) {
      if (peek() == '[') {
        table = &header(root);
      } else {
        pair(*table);
      }
      end_line();
    }
    return root;
  }

 private:
  [[nodiscard]] bool is_at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return is_at_end() ? '\n' : text_[at_]; }
  [[nodiscard]] Location here() const { return {file_, line_, static_cast<int>(at_ - line_start_) + 1}; }
  [[noreturn]] void fail(const Location& where, std::string message) const {
    throw_input_error(where, "", std::move(message));
  }

  char take() {
    if (is_at_end()) fail(here(), "the text ends inside a value");
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      line_start_ = at_;
    }
    return c;
  }
  void skip_blanks() {
    while (!is_at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) ++at_;
    if (!is_at_end() && peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }
  /// Blanks, comments and line breaks.
  void skip_lines() {
    for (skip_blanks(); !is_at_end() && peek() == '\n'; skip_blanks()) (void)take();
  }
  void expect(char c) {
    skip_blanks();
    if (is_at_end() || peek() != c) fail(here(), fmt::format("expected '{}'", c));
    (void)take();
  }
  void end_line() {
    skip_blanks();
    if (!is_at_end() && peek() != '\n') fail(here(), "expected the end of the line");
  }

  std::string key() {
    skip_blanks();
    const Location where = here();
    std::string out;
    if (peek() == '"' || peek() == '\'') {
      out = string();
    } else {
      while (!is_at_end() && is_bare(peek())) out += take();
      if (out.empty()) fail(where, "expected a key");
    }
    if (out.size() > kLongestKey) fail(where, "a key of more than 200 bytes");
    count(where);
    skip_blanks();
    return out;
  }
  std::vector<std::string> dotted_key() {
    std::vector<std::string> path{key()};
    while (peek() == '.' && !is_at_end()) {
      (void)take();
      path.push_back(key());
      if (path.size() > kDeepestNesting) fail(here(), "nested deeper than 64");
    }
    return path;
  }

  /// The map of a table's name, created where it is missing.
  Node& table(Node& from, const std::vector<std::string>& path, const Location& where) {
    Node* node = &from;
    for (const std::string& step : path) {
      Node* next = node->find(step);
      if (next && next->kind != Node::Kind::Map) fail(where, in_quotes(step) + " is a value already");
      if (!next) {
        next = &node->set(step, Node::map());
        next->where = where;
      }
      node = next;
    }
    return *node;
  }

  Node& header(Node& root) {
    const Location where = here();
    expect('[');
    if (peek() == '[') fail(where, "lists of tables are not read; expected [name]");
    Node& out = table(root, dotted_key(), where);
    expect(']');
    return out;
  }

  void pair(Node& into) {
    const Location where = here();
    std::vector<std::string> path = dotted_key();
    const std::string last = std::move(path.back());
    path.pop_back();
    Node& owner = table(into, path, where);
    if (owner.find(last)) fail(where, in_quotes(last) + " is given twice");
    expect('=');
    skip_blanks();
    owner.set(last, value(1));
  }

  Node value(std::size_t depth) {
    const Location where = here();
    count(where);
    if (depth > kDeepestNesting) fail(where, "nested deeper than 64");
    Node out;
    if (peek() == '"' || peek() == '\'') {
      out = Node::text(string());
    } else if (peek() == '[') {
      out = array(depth);
    } else if (peek() == '{') {
      out = inline_table(depth);
    } else {
      out.kind = Node::Kind::Scalar;
      while (!is_at_end() && std::string_view(" \t\r\n,]}#").find(peek()) == std::string_view::npos) {
        if (peek() != '_') out.scalar += peek();  // 1_000
        (void)take();
      }
      if (out.scalar.empty()) fail(where, "expected a value");
    }
    out.where = where;
    return out;
  }

  Node array(std::size_t depth) {
    Node out = Node::list();
    expect('[');
    for (skip_lines(); peek() != ']' || is_at_end(); skip_lines()) {
      out.items.push_back(value(depth + 1));
      skip_lines();
      if (peek() == ']' && !is_at_end()) break;
      expect(',');
    }
    expect(']');
    return out;
  }

  Node inline_table(std::size_t depth) {
    Node out = Node::map();
    expect('{');
    for (skip_blanks(); peek() != '}' || is_at_end(); skip_blanks()) {
      const Location where = here();
      const std::string name = key();
      if (out.find(name)) fail(where, in_quotes(name) + " is given twice");
      expect('=');
      skip_blanks();
      out.set(name, value(depth + 1));
      skip_blanks();
      if (peek() == '}' && !is_at_end()) break;
      expect(',');
    }
    expect('}');
    return out;
  }

  /// "basic" with escapes, 'literal', and both in three quotes over several lines.
  std::string string() {
    const Location where = here();
    const char quote = take();
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_ - 1, 3) == three;
    if (is_long) at_ += 2;
    if (is_long && peek() == '\n') (void)take();
    std::string out;
    while (is_long ? text_.substr(std::min(at_, text_.size()), 3) != three : is_at_end() || peek() != quote) {
      if (is_at_end() || (!is_long && peek() == '\n')) fail(where, "this string does not end");
      const char c = take();
      out += c == '\\' && quote == '"' ? escape() : c;
    }
    at_ += is_long ? 3 : 1;
    return out;
  }
  char escape() {
    const Location where = here();
    switch (take()) {
      case 'n': return '\n';
      case 't': return '\t';
      case '"': return '"';
      case '\\': return '\\';
      default: fail(where, "this escape is not read; expected one of \\n, \\t, \\\", \\\\");
    }
  }

  void count(const Location& where) {
    if (++nodes_ > kMostNodes) fail(where, "more than a million values");
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0, line_start_ = 0, nodes_ = 0;
  int line_ = 1;
};

}  // namespace

Node parse_toml(std::string_view text, const std::string& name) {
  if (text.size() > kConfigSizeLimit) throw_input_error({short_name(name)}, "", "is larger than 4 MiB");
  return TomlParser(checked_text(text, name), name).read();
}

}  // namespace moeplan::runs
