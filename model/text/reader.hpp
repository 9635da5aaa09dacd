// A strict reader that converts a document into typed values.
//
// A MapReader reads one map of a document. Each accessor marks its key as known and returns its value. If the value is
// missing or invalid, a diagnostic is collected and a valid dummy value is returned, so that one pass finds all errors.
// finish() reports the keys that no accessor asked for; one that is close to a missing key is reported in its place,
// and its value is read, so that a misspelt key is one error. Call Diagnostics::throw_if_any() before using the values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/document.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan {

/// The enumerators of an enumeration with their names, for reading and printing.
template <class E>
using Names = std::span<const std::pair<E, std::string_view>>;

template <class E>
[[nodiscard]] std::string_view name_of(Names<E> names, E value) {
  for (const auto& [v, name] : names) {
    if (v == value) return name;
  }
  return "?";
}

/// The enumerator of a name; none if there is none of that name.
template <class E>
[[nodiscard]] std::optional<E> named(Names<E> names, std::string_view text) {
  for (const auto& [v, name] : names) {
    if (name == text) return v;
  }
  return std::nullopt;
}

/// The names, for suggestions.
template <class E>
[[nodiscard]] std::vector<std::string> all_names(Names<E> names) {
  std::vector<std::string> out;
  for (const auto& [v, name] : names) out.emplace_back(name);
  return out;
}

enum class Sign { Positive, NonNegative };

class MapReader {
 public:
  /// `path` is the key path of this map, "" for the document. Reports a node that is not a map.
  MapReader(const Node& node, std::string path, Diagnostics& diagnostics);

  [[nodiscard]] bool has(std::string_view key) const;  // present and not null
  [[nodiscard]] const Node* find(std::string_view key);
  /// Of two names of one key, the one that the map has; the first if it has neither or both. Reports different values.
  [[nodiscard]] std::string_view either(std::string_view key, std::string_view other);
  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Diagnostics& diagnostics() const { return *diagnostics_; }

  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text_or(std::string_view key, std::string fallback);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most = kMostCount);
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                                        std::int64_t most = kMostCount);
  [[nodiscard]] double number(std::string_view key, double least, double most);
  [[nodiscard]] double number_or(std::string_view key, double fallback, double least, double most);
  [[nodiscard]] bool boolean(std::string_view key);
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback);

  template <class Q>
  [[nodiscard]] Q quantity(std::string_view key, Sign sign = Sign::Positive) {
    const Node* n = required(key);
    return n ? as_quantity<Q>(key, *n, sign) : Q(1);
  }
  template <class Q>
  [[nodiscard]] Q quantity_or(std::string_view key, Q fallback, Sign sign = Sign::NonNegative) {
    const Node* n = optional(key);
    return n ? as_quantity<Q>(key, *n, sign) : fallback;
  }
  template <class E>
  [[nodiscard]] E choice(std::string_view key, Names<E> names) {
    const Node* n = required(key);
    return n ? as_choice(key, *n, names) : names.front().first;
  }
  template <class E>
  [[nodiscard]] E choice_or(std::string_view key, E fallback, Names<E> names) {
    const Node* n = optional(key);
    return n ? as_choice(key, *n, names) : fallback;
  }

  /// The reader of a nested map. A missing map is reported once and reads as empty.
  [[nodiscard]] MapReader map(std::string_view key);
  /// The elements of a list with their key paths ("links[0]"). A missing list is reported.
  using Items = std::vector<std::pair<const Node*, std::string>>;
  [[nodiscard]] Items list(std::string_view key);
  [[nodiscard]] Items list_or_empty(std::string_view key);

  /// Reports an error in the value of `key` (located at the map if the key is missing), or in the map itself (""). Does
  /// nothing if the map itself is missing, since that has already been reported.
  void complain(std::string_view key, std::string message);
  /// Whether no error has been reported in the value of `key`, so that others can be compared with it.
  [[nodiscard]] bool is_sound(std::string_view key) const;
  /// Reports keys that no accessor asked for.
  void finish();
  /// For a map that may hold other keys: reports only those that are close to a missing key, in its place, and those
  /// that one slip makes of an optional key that is not there (is_one_slip()).
  void report_misspelt();

  static constexpr std::int64_t kMostCount = 1'000'000'000'000;

 private:
  [[nodiscard]] const Node* required(std::string_view key);
  [[nodiscard]] const Node* optional(std::string_view key);
  [[nodiscard]] Items items(std::string_view key, const Node* list);
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> scalar(std::string_view key, const Node& node,
                                                       std::string_view expected);
  /// Reports a count or plain number that is written as quoted text.
  [[nodiscard]] bool is_quoted(std::string_view key, const Node& node);
  [[nodiscard]] bool checked(std::string_view key, const Node& node, double value, Sign sign);
  void wrong_choice(std::string_view key, const Node& node, std::span<const std::string> names);

  template <class Q>
  [[nodiscard]] Q as_quantity(std::string_view key, const Node& node, Sign sign) {
    const auto value = scalar(key, node, "a number with its unit");
    if (!value) return Q(1);
    const Parsed<Q> parsed = parse_quantity<Q>(*value);
    if (const auto* error = std::get_if<TextError>(&parsed)) {
      complain(key, error->message);
      return Q(1);
    }
    const Q q = std::get<Q>(parsed);
    return checked(key, node, q.value(), sign) ? q : Q(1);
  }
  template <class E>
  [[nodiscard]] E as_choice(std::string_view key, const Node& node, Names<E> names) {
    std::vector<std::string> texts;
    for (const auto& [value, name] : names) {
      if (node.kind == Node::Kind::Scalar && node.scalar == name) return value;
      texts.emplace_back(name);
    }
    wrong_choice(key, node, texts);
    return names.front().first;
  }

  /// The value of `key`, or of the entry that is taken for it; null if there is neither.
  [[nodiscard]] const Node* value_for(std::string_view key) const;
  /// The entry that is probably a misspelt `key`: unknown so far and close to it.
  [[nodiscard]] const Entry* misspelt(const std::string& key) const;

  const Node* node_;
  std::string path_;
  Diagnostics* diagnostics_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, const Entry*>> missing_;  // reported as missing; what is taken for it, or null
};

}  // namespace moeplan
