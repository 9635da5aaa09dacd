#include "model/text/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "model/text/source_text.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan {

namespace {

/// One step of a key path: a key, or an index into a list.
struct PathStep {
  std::string key;
  bool is_index = false;
  std::size_t index = 0;
};

std::vector<PathStep> split_path(std::string_view path, const std::string& origin) {
  const auto refuse = [&](const char* message) { throw_input_error({origin}, std::string(path), message); };
  std::vector<PathStep> steps;
  std::size_t i = 0;
  while (i < path.size() || steps.empty()) {
    if (steps.size() == kDeepestNesting) refuse("the key path has more than 64 steps");
    if (i < path.size() && path[i] == '[') {
      const std::size_t close = path.find(']', i);
      const std::string_view digits = path.substr(i + 1, close == std::string_view::npos ? 0 : close - i - 1);
      const auto parsed = parse_integer(digits);
      const auto* index = std::get_if<long long>(&parsed);
      if (!index || *index < 0) refuse("expected a list index such as links[0]");
      steps.push_back({std::string(digits), true, static_cast<std::size_t>(*index)});
      i = close + 1;
    } else {
      const std::size_t end = std::min(path.find_first_of(".[", i), path.size());
      if (end == i) refuse("expected a key path such as a.b[2].c");
      if (end - i > kLongestKey) refuse("a key of more than 200 bytes");
      steps.push_back({std::string(path.substr(i, end - i))});
      i = end;
    }
    if (i == path.size() || path[i] == '[') continue;
    if (path[i] != '.') refuse("expected a key path such as a.b[2].c");
    if (++i == path.size()) refuse("the key path ends in a dot");
  }
  return steps;
}

}  // namespace

Node Node::map() {
  Node n;
  n.kind = Kind::Map;
  return n;
}
Node Node::list() {
  Node n;
  n.kind = Kind::List;
  return n;
}
Node Node::text(std::string value) {
  Node n;
  n.kind = Kind::Scalar;
  n.is_string = true;
  n.scalar = std::move(value);
  return n;
}
Node Node::plain(std::string value) {
  Node n;
  n.kind = Kind::Scalar;
  n.scalar = std::move(value);
  return n;
}

Node Node::number(double value) {
  Node n;
  n.kind = Kind::Scalar;
  n.scalar = exact(value);
  return n;
}
Node Node::integer(long long value) {
  Node n;
  n.kind = Kind::Scalar;
  n.scalar = fmt::format("{}", value);
  return n;
}
Node Node::boolean(bool value) {
  Node n;
  n.kind = Kind::Scalar;
  n.scalar = value ? "true" : "false";
  return n;
}

const Node* Node::find(std::string_view key) const {
  for (const Entry& e : entries) {
    if (e.key == key) return &e.value;
  }
  return nullptr;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node& Node::set(std::string key, Node value) {
  if (Node* old = find(key)) return *old = std::move(value);
  const Location place = value.where;
  entries.push_back({std::move(key), place, std::move(value)});
  return entries.back().value;
}

bool Node::same_content(const Node& other) const {
  if (kind != other.kind || scalar != other.scalar || items.size() != other.items.size() ||
      entries.size() != other.entries.size()) {
    return false;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].same_content(other.items[i])) return false;
  }
  const auto sorted = [](const Node& node) {
    std::vector<const Entry*> all;
    for (const Entry& e : node.entries) all.push_back(&e);
    std::sort(all.begin(), all.end(), [](const Entry* a, const Entry* b) { return a->key < b->key; });
    return all;
  };
  const auto same = [](const Entry* a, const Entry* b) { return a->key == b->key && a->value.same_content(b->value); };
  return std::ranges::equal(sorted(*this), sorted(other), same);
}

void merge(Node& base, Node over) {
  if (base.kind != Node::Kind::Map || over.kind != Node::Kind::Map) {
    base = std::move(over);
    return;
  }
  std::map<std::string, std::size_t, std::less<>> place;
  for (std::size_t i = 0; i < base.entries.size(); ++i) place.emplace(base.entries[i].key, i);
  for (Entry& e : over.entries) {
    const auto it = place.find(e.key);
    if (it == place.end()) {
      base.entries.push_back(std::move(e));
    } else if (Entry& mine = base.entries[it->second];
               mine.value.kind == Node::Kind::Map && e.value.kind == Node::Kind::Map) {
      merge(mine.value, std::move(e.value));
    } else {
      mine = std::move(e);
    }
  }
}

void override_value(Node& document, std::string_view key_path, std::string_view value, const std::string& origin) {
  const std::vector<PathStep> steps = split_path(key_path, origin);
  Node parsed = parse_yaml(value, origin);
  Node* at = &document;
  for (const PathStep& step : steps) {
    if (step.is_index) {
      if (at->kind != Node::Kind::List || step.index >= at->items.size()) {
        throw_input_error(
            {origin}, std::string(key_path),
            fmt::format("there is no element [{}]{}", step.key,
                        at->kind == Node::Kind::List ? fmt::format(" in a list of {}", at->items.size()) : ""));
      }
      at = &at->items[step.index];
      continue;
    }
    if (at->kind == Node::Kind::Null) {
      *at = Node::map();
      at->where = parsed.where;
    }
    if (at->kind != Node::Kind::Map) {
      throw_input_error({origin}, std::string(key_path), fmt::format("{} is not inside a map", in_quotes(step.key)));
    }
    Node* next = at->find(step.key);
    if (!next) {
      next = &at->set(step.key, Node{});
      at->entries.back().where = parsed.where;
    }
    at = next;
  }
  *at = std::move(parsed);
}

}  // namespace moeplan
