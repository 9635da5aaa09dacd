#include "model/text/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace moeplan {

namespace {

const Node kEmptyMap = Node::map();
constexpr const char* kMissingKey = "missing key";

/// A word in one spelling of the two of English: "optimised" and "optimized", "behaviour" and "behavior" are equal
/// then.
std::string one_spelling(std::string_view word) {
  std::string out(word);
  const auto replace = [&](std::string_view from, std::string_view to) {
    for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size())) {
      if (at > 0 && out[at - 1] != 's') out.replace(at, from.size(), to);  // but not size
    }
  };
  replace("iz", "is");
  replace("yz", "ys");
  replace("our", "or");
  replace("tre", "ter");
  return out;
}

bool is_same_word(std::string_view a, std::string_view b) {
  return a == b || (a.size() <= b.size() + 2 && b.size() <= a.size() + 2 && one_spelling(a) == one_spelling(b));
}

/// The entry with this key, in either spelling; null if there is none.
const Entry* entry_of(const Node& map, std::string_view key) {
  const Entry* other = nullptr;
  for (const Entry& e : map.entries) {
    if (e.key == key) return &e;
    if (!other && is_same_word(e.key, key)) other = &e;
  }
  return other;
}

const Node* value_of(const Node& map, std::string_view key) {
  const Entry* entry = entry_of(map, key);
  return entry ? &entry->value : nullptr;
}

std::string_view kind_name(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::Null: return "nothing";
    case Node::Kind::Scalar: return "a single value";
    case Node::Kind::List: return "a list";
    case Node::Kind::Map: return "a map";
  }
  return "?";
}

}  // namespace

MapReader::MapReader(const Node& node, std::string path, Diagnostics& diagnostics)
    : node_(&node), path_(std::move(path)), diagnostics_(&diagnostics) {
  if (node.kind == Node::Kind::Map) return;
  diagnostics.add(node.where, path_,
                  node.kind == Node::Kind::Null && path_.empty()
                      ? "is empty; expected a map of keys"
                      : fmt::format("expected a map, found {}", kind_name(node.kind)));
  node_ = &kEmptyMap;
}

std::string MapReader::path_of(std::string_view key) const {
  if (key.empty()) return path_;
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Node* MapReader::optional(std::string_view key) {
  known_.emplace_back(key);
  const Entry* entry = entry_of(*node_, key);
  if (entry && entry->key != key) known_.push_back(entry->key);
  const Node* n = entry ? &entry->value : nullptr;
  return n && n->kind != Node::Kind::Null ? n : nullptr;
}

const Node* MapReader::required(std::string_view key) {
  const Node* n = optional(key);
  if (n || node_ == &kEmptyMap) return n;
  const Node* null_value = value_of(*node_, key);
  if (null_value) {
    diagnostics_->add(null_value->where, path_of(key), "has no value");
    return nullptr;
  }
  if (const Node* taken = value_for(key)) return taken;
  diagnostics_->add(node_->where, path_of(key), kMissingKey);
  missing_.emplace_back(key, misspelt(std::string(key)));
  return value_for(key);
}

const Entry* MapReader::misspelt(const std::string& key) const {
  constexpr std::size_t kMostEntries = 256;  // no map of known keys is larger
  constexpr std::size_t kShortest = 3;       // two letters are close to any two
  if (node_->entries.size() > kMostEntries || key.size() < kShortest) return nullptr;
  for (const Entry& e : node_->entries) {
    if (e.value.kind == Node::Kind::Null || e.key.size() < kShortest) continue;
    const bool is_known = std::find(known_.begin(), known_.end(), e.key) != known_.end();
    if (!is_known && !nearest_name(e.key, std::span(&key, 1)).empty()) return &e;
  }
  return nullptr;
}

const Node* MapReader::value_for(std::string_view key) const {
  if (const Node* n = value_of(*node_, key)) return n;
  const auto found = std::find_if(missing_.begin(), missing_.end(), [&](const auto& m) { return m.first == key; });
  return found == missing_.end() || !found->second ? nullptr : &found->second->value;
}

bool MapReader::has(std::string_view key) const {
  const Node* n = value_of(*node_, key);
  return n && n->kind != Node::Kind::Null;
}

const Node* MapReader::find(std::string_view key) { return optional(key); }

std::string_view MapReader::either(std::string_view key, std::string_view other) {
  const Node *one = optional(key), *two = optional(other);
  if (one && two && one->scalar != two->scalar)
    complain(other, fmt::format("differs from {}, which is another name of it; write one of them", key));
  return two && !one ? other : key;
}

void MapReader::complain(std::string_view key, std::string message) {
  if (node_ == &kEmptyMap) return;  // the missing map has already been reported
  const Node* n = value_for(key);
  diagnostics_->add(n ? n->where : node_->where, path_of(key), std::move(message));
}

bool MapReader::is_sound(std::string_view key) const {
  const std::string path = path_of(key);
  const std::span<const Diagnostic> found = diagnostics_->list();
  return std::none_of(found.begin(), found.end(),
                      [&](const Diagnostic& d) { return d.key_path == path && d.where.file == node_->where.file; });
}

std::optional<std::string_view> MapReader::scalar(std::string_view key, const Node& node, std::string_view expected) {
  if (node.kind == Node::Kind::Scalar) return node.scalar;
  complain(key, fmt::format("expected {}, found {}", expected, kind_name(node.kind)));
  return std::nullopt;
}

bool MapReader::checked(std::string_view key, const Node& node, double value, Sign sign) {
  if (sign == Sign::Positive ? value > 0 : value >= 0) return true;
  complain(key, fmt::format("{} is out of range; expected {}", in_quotes(node.scalar),
                            sign == Sign::Positive ? "more than 0" : "0 or more"));
  return false;
}

bool MapReader::is_quoted(std::string_view key, const Node& node) {
  if (node.is_string)
    complain(key, fmt::format("{} is a text; write the number without quotes", in_quotes(node.scalar)));
  return node.is_string;
}

void MapReader::wrong_choice(std::string_view key, const Node& node, std::span<const std::string> names) {
  if (node.kind != Node::Kind::Scalar) {
    complain(key, fmt::format("expected one of {}, found {}", fmt::join(names, ", "), kind_name(node.kind)));
    return;
  }
  complain(key, fmt::format("{} is not known{}", in_quotes(node.scalar), suggestion(node.scalar, names)));
}

std::string MapReader::text(std::string_view key) {
  const Node* n = required(key);
  if (!n) return "";
  return std::string(scalar(key, *n, "a text").value_or(""));
}

std::string MapReader::text_or(std::string_view key, std::string fallback) {
  const Node* n = optional(key);
  return n ? std::string(scalar(key, *n, "a text").value_or("")) : std::move(fallback);
}

std::int64_t MapReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const Node* n = required(key);
  if (!n) return least;
  const auto value = scalar(key, *n, "a whole number");
  if (!value || is_quoted(key, *n)) return least;
  const auto parsed = parse_integer(*value);
  if (const auto* error = std::get_if<TextError>(&parsed)) {
    complain(key, fmt::format("{}; expected {} to {}", error->message, least, most));
    return least;
  }
  const std::int64_t number = std::get<long long>(parsed);
  if (number < least || number > most) {
    complain(key, fmt::format("{} is out of range; expected {}{}", number, least,
                              most == kMostCount ? " or more"
                              : most == least    ? ""
                                                 : fmt::format(" to {}", most)));
    return least;
  }
  return number;
}

std::int64_t MapReader::integer_or(std::string_view key, std::int64_t fallback, std::int64_t least, std::int64_t most) {
  return optional(key) ? integer(key, least, most) : fallback;
}

double MapReader::number(std::string_view key, double least, double most) {
  const Node* n = required(key);
  if (!n) return least;
  const auto value = scalar(key, *n, "a number");
  if (!value || is_quoted(key, *n)) return least;
  const auto parsed = parse_number(*value);
  if (const auto* error = std::get_if<TextError>(&parsed)) {
    complain(key, fmt::format("{}; expected {} to {}", error->message, least, most));
    return least;
  }
  const double number = std::get<double>(parsed);
  if (!(number >= least && number <= most)) {
    complain(key, fmt::format("{} is out of range; expected {} to {}", *value, least, most));
    return least;
  }
  return number;
}

double MapReader::number_or(std::string_view key, double fallback, double least, double most) {
  return optional(key) ? number(key, least, most) : fallback;
}

bool MapReader::boolean(std::string_view key) {
  const Node* n = required(key);
  if (!n) return false;
  if (n->kind == Node::Kind::Scalar && (n->scalar == "true" || n->scalar == "false")) return n->scalar == "true";
  complain(key, n->kind == Node::Kind::Scalar ? fmt::format("{} is neither true nor false", in_quotes(n->scalar))
                                              : fmt::format("expected true or false, found {}", kind_name(n->kind)));
  return false;
}

bool MapReader::boolean_or(std::string_view key, bool fallback) { return optional(key) ? boolean(key) : fallback; }

MapReader MapReader::map(std::string_view key) {
  const Node* n = required(key);
  return MapReader(n ? *n : kEmptyMap, path_of(key), *diagnostics_);
}

MapReader::Items MapReader::list(std::string_view key) { return items(key, required(key)); }

MapReader::Items MapReader::list_or_empty(std::string_view key) { return items(key, optional(key)); }

MapReader::Items MapReader::items(std::string_view key, const Node* n) {
  Items out;
  if (!n) return out;
  if (n->kind != Node::Kind::List) {
    complain(key, fmt::format("expected a list, found {}", kind_name(n->kind)));
    return out;
  }
  for (std::size_t i = 0; i < n->items.size(); ++i) {
    out.emplace_back(&n->items[i], fmt::format("{}[{}]", path_of(key), i));
  }
  return out;
}

void MapReader::report_misspelt() {
  for (const auto& [key, taken] : missing_) {
    if (!taken || std::find(known_.begin(), known_.end(), taken->key) != known_.end()) continue;
    diagnostics_->withdraw({node_->where, path_of(key), kMissingKey});
    diagnostics_->add(taken->where, path_of(taken->key), "unknown key" + suggestion(taken->key, std::vector{key}));
  }
  constexpr std::size_t kShort = 6;  // of shorter keys one letter is too much
  const auto asked_for = [&](std::string_view key) {
    return std::find(known_.begin(), known_.end(), key) != known_.end();
  };
  const auto is_missing = [&](const std::string& key) {
    return std::any_of(missing_.begin(), missing_.end(), [&](const auto& m) { return m.first == key; });
  };
  for (const Entry& e : node_->entries) {
    if (e.key.size() < kShort || asked_for(e.key)) continue;
    const auto meant = std::find_if(known_.begin(), known_.end(), [&](const std::string& key) {
      return is_one_slip(e.key, key) && !node_->find(key) && !is_missing(key);
    });
    if (meant != known_.end())
      diagnostics_->add(e.where, path_of(e.key), "unknown key" + suggestion(e.key, std::vector{*meant}));
  }
}

void MapReader::finish() {
  std::sort(known_.begin(), known_.end());
  known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
  std::vector<std::string> candidates;  // those that are missing first: an equally close one is more probable
  for (const auto& [key, taken] : missing_) candidates.push_back(key);
  const auto number_missing = static_cast<std::ptrdiff_t>(candidates.size());
  candidates.insert(candidates.end(), known_.begin(), known_.end());
  const auto known = candidates.begin() + number_missing;
  for (const Entry& e : node_->entries) {
    if (std::binary_search(known_.begin(), known_.end(), e.key)) continue;
    if (diagnostics_->is_full()) {
      diagnostics_->add(e.where, path_of(e.key), "unknown key");
      continue;
    }
    const std::string nearest = nearest_name(e.key, candidates);
    if (std::find(candidates.begin(), known, nearest) != known)
      diagnostics_->withdraw({node_->where, path_of(nearest), kMissingKey});
    diagnostics_->add(e.where, path_of(e.key),
                      "unknown key" + suggestion(e.key, nearest.empty() ? known_ : std::vector{nearest}));
  }
}

}  // namespace moeplan
