#include "model/base/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan {

namespace {

std::string joined(std::span<const Diagnostic> diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) {
    if (!text.empty()) text += '\n';
    text += d.text();
  }
  return text;
}

/// Escapes control characters (line ends, terminal escapes) as \xNN, so that a diagnostic stays on one line.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

/// The beginning of a very long key path, cut at a character boundary.
std::string_view shortened(std::string_view key_path) {
  std::size_t length = 400;
  if (key_path.size() <= length) return key_path;
  while (length > 0 && (static_cast<unsigned char>(key_path[length]) & 0xc0) == 0x80) --length;
  return key_path.substr(0, length);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Edit distance with transpositions of adjacent characters (optimal string alignment); stops once it exceeds `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string Diagnostic::text() const {
  std::string text = one_line(where.file);
  if (where.line > 0) text += fmt::format(":{}", where.line);
  if (where.line > 0 && where.column > 0) text += fmt::format(":{}", where.column);
  if (!key_path.empty()) text += (text.empty() ? "" : ": ") + one_line(shortened(key_path));
  return text + (text.empty() ? "" : ": ") + one_line(message);
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(joined(diagnostics)), diagnostics_(std::move(diagnostics)) {}

void throw_input_error(Location where, std::string key_path, std::string message) {
  throw InputError({std::move(where), std::move(key_path), std::move(message)});
}

void Diagnostics::add(Location where, std::string key_path, std::string message) {
  if (is_full()) {
    ++dropped_;
    return;
  }
  list_.push_back({std::move(where), std::move(key_path), std::move(message)});
}

void Diagnostics::withdraw(const Diagnostic& diagnostic) {
  const auto found = std::find(list_.begin(), list_.end(), diagnostic);
  if (found != list_.end()) list_.erase(found);
}

void Diagnostics::throw_if_any() const {
  if (list_.empty()) return;
  std::vector<Diagnostic> all = list_;
  if (dropped_ > 0) all.push_back({{all.back().where.file}, "", fmt::format("{} more errors are not shown", dropped_)});
  throw InputError(std::move(all));
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > 64) return "";
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  for (const std::string& candidate : candidates) {
    if (std::ranges::equal(name, candidate, same)) return candidate;
  }
  const std::size_t limit = std::max<std::size_t>(1, std::min<std::size_t>(3, name.size() / 2));
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const bool is_beginning = name.size() >= 3 && candidate.starts_with(name);  // h200 of h200_sxm
    const std::size_t distance = is_beginning ? 1 : edit_distance(name, candidate, limit);
    // Of several names that begin so, the shortest: mixtral_8x7b of mixtral.
    const bool is_shorter = is_beginning && distance == best_distance && best.starts_with(name);
    if (distance < best_distance || (is_shorter && candidate.size() < best.size())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

bool is_one_slip(std::string_view name, std::string_view other) { return edit_distance(name, other, 1) == 1; }

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  if (const std::string nearest = nearest_name(name, candidates); !nearest.empty()) {
    return fmt::format("; did you mean \"{}\"?", nearest);
  }
  if (candidates.empty() || candidates.size() > 24) return "";
  return fmt::format("; one of {}", fmt::join(candidates, ", "));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) out += "...";
  return out + '"';
}

}  // namespace moeplan
