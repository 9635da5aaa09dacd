// Diagnostics for bad user input: each names the location, the key path, the error and, where possible, a correction.
//
// Error policy. Bad user input: every diagnostic of a file is collected, then InputError is thrown once (exit code 2).
// An expected negative result, such as a model that does not fit in memory, is a value, not an exception (exit code 3).
// A programmer's mistake is an assert that no input can reach.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan {

/// A position in a file. Lines and columns count from 1; line 0 denotes the whole file, column 0 the whole line.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Location&) const = default;
};

struct Diagnostic {
  Location where;
  std::string key_path;  // "links[0].bandwidth"; empty for the document itself
  std::string message;

  /// `file:line:col: key.path: message`, always one line.
  [[nodiscard]] std::string text() const;
  bool operator==(const Diagnostic&) const = default;
};

/// Exception for bad user input; carries at least one diagnostic. what() has one line per diagnostic.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(Diagnostic diagnostic) : InputError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

  [[nodiscard]] std::span<const Diagnostic> diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Raises InputError with this one diagnostic.
[[noreturn]] void throw_input_error(Location where, std::string key_path, std::string message);

/// Collects what is wrong, in the order found, the first hundred at most and the number of the others;
/// throw_if_any() ends the reading of a file.
class Diagnostics {
 public:
  static constexpr std::size_t kMost = 100;

  void add(Location where, std::string key_path, std::string message);
  /// Removes a diagnostic that another one turned out to explain; none if it is not there.
  void withdraw(const Diagnostic& diagnostic);
  /// Calls `read`, and takes in the errors of its InputError.
  template <class Read>
  void collect(const Read& read) {
    try {
      read();
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics()) add(d.where, d.key_path, d.message);
    }
  }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] bool is_full() const { return list_.size() >= kMost; }
  [[nodiscard]] std::span<const Diagnostic> list() const { return list_; }
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> list_;
  std::size_t dropped_ = 0;
};

/// The candidate closest to `name` by edit distance (insert, delete, replace, swap), or "" if none is close enough to
/// be a likely correction. A name that differs only in case is closest. Ties: the first.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// Whether one insertion, deletion, replacement or swap of neighbours makes one name of the other.
[[nodiscard]] bool is_one_slip(std::string_view name, std::string_view other);

/// The suffix of an error message: `; did you mean "beta"?`, or `; one of a, b, c` if no candidate is close and the
/// list is short, or "".
[[nodiscard]] std::string suggestion(std::string_view name, std::span<const std::string> candidates);

/// `text` quoted for a one-line message: quotes, control bytes and non-ASCII bytes are escaped; at most 60 characters.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace moeplan
