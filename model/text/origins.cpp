#include "model/text/origins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace moeplan {

namespace {

constexpr std::array<std::string_view, 4> kMarks{"measured", "datasheet", "published", "assumed"};
constexpr std::array<std::string_view, 12> kNoNumbers{"name", "from",       "to",   "node", "a",       "b",
                                                      "kind", "collective", "span", "tier", "origins", "include"};
constexpr std::string_view kCommandLine = "-C ";
constexpr std::string_view kSetThere = "assumed: set on the command line";

/// Whether an origin's text is "MARK: something".
bool has_mark(std::string_view text) {
  return std::any_of(kMarks.begin(), kMarks.end(), [&](std::string_view mark) {
    return text.size() > mark.size() + 2 && text.starts_with(mark) && text.substr(mark.size(), 2) == ": " &&
           text.find_first_not_of(' ', mark.size() + 2) != std::string_view::npos;
  });
}

/// A number, with or without a unit.
bool is_number(const Node& node) {
  if (node.kind != Node::Kind::Scalar) return false;
  const std::string& s = node.scalar;
  double number = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
  if (error != std::errc{}) return false;
  if (end == s.data() + s.size()) return true;
  return std::holds_alternative<Seconds>(parse_seconds(s)) || std::holds_alternative<Bytes>(parse_bytes(s)) ||
         std::holds_alternative<BytesPerSecond>(parse_bytes_per_second(s)) ||
         std::holds_alternative<SecondsPerByte>(parse_seconds_per_byte(s)) ||
         std::holds_alternative<FlopsPerSecond>(parse_flops_per_second(s));
}

/// The origins that apply to a part of a document, and the key path at which that part starts.
struct Scope {
  const Node* origins;
  std::string prefix;
};

std::string joined(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

/// Calls visit(scope, path within the scope, node) for every number below `node`, in document order.
template <class Visit>
void for_each_number(const Node& node, const std::string& path, const Scope& scope, const Visit& visit) {
  if (is_number(node)) visit(scope, path, node);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    for_each_number(node.items[i], fmt::format("{}[{}]", path, i), scope, visit);
  }
  for (const Entry& e : node.entries) {
    if (std::find(kNoNumbers.begin(), kNoNumbers.end(), e.key) != kNoNumbers.end()) continue;
    const std::string inner = joined(path, e.key);
    const Node* own = e.value.find("origins");
    if (!own) {
      for_each_number(e.value, inner, scope, visit);
    } else {
      for_each_number(e.value, "", Scope{own, joined(scope.prefix, inner)}, visit);
    }
  }
}

/// The path without its last component; none once it is empty.
std::optional<std::string_view> parent(std::string_view path) {
  if (path.empty()) return std::nullopt;
  const std::size_t cut = path.find_last_of(".[");
  return path.substr(0, cut == std::string_view::npos ? 0 : cut);
}

/// The origin of the longest prefix of `path` that has one.
std::optional<std::string> longest_origin(const Node* origins, std::string_view path) {
  if (!origins) return std::nullopt;
  for (std::optional<std::string_view> p = path; p; p = parent(*p)) {
    if (const Node* origin = origins->find(*p); origin && origin->kind == Node::Kind::Scalar) return origin->scalar;
  }
  return std::nullopt;
}

std::optional<std::string> origin_of(const Node* origins, std::string_view path, const Node& node) {
  return set_on_command_line(node) ? std::string(kSetThere) : longest_origin(origins, path);
}

/// The node at a key path, or the last existing node along the path.
struct Found {
  const Node* node;
  bool whole;
};
Found find_path(const Node& document, std::string_view path) {
  const Node* at = &document;
  while (!path.empty()) {
    const Node* next = nullptr;
    if (path.front() == '[') {
      const std::size_t close = path.find(']');
      if (close == std::string_view::npos) return {at, false};
      const auto index = parse_integer(path.substr(1, close - 1));
      const auto* i = std::get_if<long long>(&index);
      if (i && *i >= 0 && static_cast<std::size_t>(*i) < at->items.size())
        next = &at->items[static_cast<std::size_t>(*i)];
      path.remove_prefix(close + 1);
    } else {
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      next = at->find(path.substr(0, end));
      path.remove_prefix(end);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
    if (!next) return {at, false};
    at = next;
  }
  return {at, true};
}

}  // namespace

void read_origins(MapReader& document) {
  if (!document.has("origins")) {
    static_cast<void>(document.find("origins"));
    return;
  }
  MapReader origins = document.map("origins");
  for (const Entry& e : origins.node().entries) {
    if (e.value.kind != Node::Kind::Scalar || !has_mark(e.value.scalar)) {
      origins.complain(e.key,
                       "expected a text that begins with measured:, datasheet:, published: or assumed: and says "
                       "the source");
      continue;
    }
    const Found found = find_path(document.node(), e.key);
    if (!found.whole && !set_on_command_line(*found.node)) {
      origins.complain(e.key, "names no key of this document");
    }
  }
}

void check_origins(MapReader& document, std::span<const std::string_view> elsewhere) {
  const Node* origins = document.node().find("origins");
  for (const Entry& e : document.node().entries) {
    if (std::find(elsewhere.begin(), elsewhere.end(), e.key) != elsewhere.end()) continue;
    if (std::find(kNoNumbers.begin(), kNoNumbers.end(), e.key) != kNoNumbers.end()) continue;
    for_each_number(
        e.value, e.key, Scope{origins, ""}, [&](const Scope& scope, const std::string& path, const Node& n) {
          if (origin_of(scope.origins, path, n)) return;
          document.diagnostics().add(n.where, joined(document.path(), joined(scope.prefix, path)),
                                     "has no origin; name it, or a prefix of it, in origins as \"measured: ...\", "
                                     "\"datasheet: ...\", \"published: ...\" or \"assumed: ...\"");
        });
  }
}

std::string origin_at(const Node& document, std::string_view path) {
  return longest_origin(document.find("origins"), path).value_or("");
}

bool set_on_command_line(const Node& node) { return node.where.file.starts_with(kCommandLine); }

void drop_replaced_origins(Node& document) {
  for (Entry& e : document.entries) drop_replaced_origins(e.value);
  for (Node& item : document.items) drop_replaced_origins(item);
  Node* origins = document.find("origins");
  if (!origins) return;
  std::erase_if(origins->entries, [&](const Entry& e) {
    const Found found = find_path(document, e.key);
    return !found.whole && set_on_command_line(*found.node);
  });
  for (Entry& e : origins->entries) {
    const Found found = find_path(document, e.key);
    if (!e.key.empty() && found.whole && set_on_command_line(*found.node)) e.value = Node::text(std::string(kSetThere));
  }
}

void record_overrides(Node& document) {
  std::vector<std::pair<std::string, std::string>> found;  // the map whose origins apply, the path within it
  const auto note = [&](const Scope& scope, const std::string& path, const Node& n) {
    if (set_on_command_line(n)) found.emplace_back(scope.prefix, path);
  };
  for_each_number(document, "", Scope{document.find("origins"), ""}, note);
  for (const auto& [prefix, path] : found) {
    Node* map = &document;
    for (std::size_t at = 0; at < prefix.size();) {
      const std::size_t end = std::min(prefix.find('.', at), prefix.size());
      if (Node* next = map->find(std::string_view(prefix).substr(at, end - at))) map = next;
      at = end + 1;
    }
    Node* origins = map->find("origins");
    if (!origins || origins->kind != Node::Kind::Map) origins = &map->set("origins", Node::map());
    origins->set(path, Node::text(std::string(kSetThere)));
  }
}

std::vector<std::string> assumed_numbers(const Node& document) {
  constexpr std::string_view kAssumed = "assumed: ";
  std::vector<std::string> out;
  const Scope whole{document.find("origins"), ""};
  for_each_number(document, "", whole, [&](const Scope& scope, const std::string& path, const Node& n) {
    const std::optional<std::string> origin = origin_of(scope.origins, path, n);
    if (!origin || !origin->starts_with(kAssumed)) return;
    out.push_back(fmt::format("{} = {}: {}", joined(scope.prefix, path), n.scalar, origin->substr(kAssumed.size())));
  });
  return out;
}

}  // namespace moeplan
