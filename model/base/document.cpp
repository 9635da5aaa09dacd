#include "model/base/document.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "model/base/unit_text.hpp"

namespace moeplan {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(Location where, std::string key_path, std::string message) {
  throw InputError({std::move(where), std::move(key_path), std::move(message)});
}

Node load_with_includes(const fs::path& path, std::vector<fs::path>& stack, std::size_t& files);

/// The merged content of what `document` includes; takes the key out of it.
Node included(Node& document, const fs::path& path, std::vector<fs::path>& stack, std::size_t& files) {
  Node base = Node::map();
  const auto it = std::find_if(document.entries.begin(), document.entries.end(),
                               [](const Entry& e) { return e.key == "include"; });
  if (it == document.entries.end()) return base;
  const Node include = it->value;
  document.entries.erase(it);
  std::vector<Node> paths = include.kind == Node::Kind::List ? include.items : std::vector<Node>{include};
  for (const Node& p : paths) {
    if (p.kind != Node::Kind::Scalar || p.scalar.empty()) {
      fail(p.where, "include", "expected a path, or a list of paths, relative to this file");
    }
    const fs::path target = path.parent_path() / p.scalar;
    std::error_code ignored;
    if (!fs::is_regular_file(target, ignored)) {
      fail(p.where, "include", fmt::format("{} is no readable file", in_quotes(p.scalar)));
    }
    const fs::path canonical = fs::weakly_canonical(target);
    if (std::find(stack.begin(), stack.end(), canonical) != stack.end()) {
      fail(p.where, "include", fmt::format("include cycle: {} includes itself", in_quotes(p.scalar)));
    }
    Node content = load_with_includes(target, stack, files);
    merge(base, content);
  }
  return base;
}

Node load_with_includes(const fs::path& path, std::vector<fs::path>& stack, std::size_t& files) {
  constexpr std::size_t kMostFiles = 256;
  if (++files > kMostFiles) fail({path.string()}, "include", "more than 256 files are included");
  const std::string text = read_text_file(path);
  Node document = path.extension() == ".json" ? parse_json(text, path.string()) : parse_yaml(text, path.string());
  if (document.kind != Node::Kind::Map) return document;
  stack.push_back(fs::weakly_canonical(path));
  Node base = included(document, path, stack, files);
  stack.pop_back();
  if (base.entries.empty()) return document;
  merge(base, document);
  base.where = document.where;
  return base;
}

/// One step of a key path: a key, or an index into a list.
struct PathStep {
  std::string key;
  bool is_index = false;
  std::size_t index = 0;
};

std::vector<PathStep> split_path(std::string_view path, const std::string& origin) {
  std::vector<PathStep> steps;
  std::size_t i = 0;
  while (i < path.size()) {
    if (path[i] == '[') {
      const std::size_t close = path.find(']', i);
      const std::string_view digits = path.substr(i + 1, close == std::string_view::npos ? 0 : close - i - 1);
      const auto parsed = parse_integer(digits);
      const auto* index = std::get_if<long long>(&parsed);
      if (!index || *index < 0) fail({origin}, std::string(path), "expected a list index such as links[0]");
      steps.push_back({std::string(digits), true, static_cast<std::size_t>(*index)});
      i = close + 1;
      if (i < path.size() && path[i] == '.') ++i;
      continue;
    }
    const std::size_t end = std::min(path.find_first_of(".[", i), path.size());
    if (end == i) fail({origin}, std::string(path), "expected a key path such as a.b[2].c");
    steps.push_back({std::string(path.substr(i, end - i))});
    i = end < path.size() && path[end] == '.' ? end + 1 : end;
    if (end + 1 == path.size() && path[end] == '.') fail({origin}, std::string(path), "the key path ends in a dot");
  }
  if (steps.empty()) fail({origin}, "", "expected a key path such as a.b[2].c");
  return steps;
}

bool plain_is_safe(const std::string& s) {
  if (s.empty() || s.front() == ' ' || s.back() == ' ') return false;
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./ ()=";
  if (s.find_first_not_of(kLetters) != std::string::npos) return false;
  static constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
  if (s.front() == '-') return s.size() > 1 && s[1] >= '0' && s[1] <= '9';
  return kFirst.find(s.front()) != std::string_view::npos;
}

std::string escaped(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Quoted text that would read back as null or as a typed scalar keeps its quotes.
std::string scalar_text(const Node& node) {
  static const std::set<std::string> kWords{"null", "Null", "NULL", "~", "true", "false", "yes", "no", "on", "off"};
  const bool looks_typed = kWords.contains(node.scalar) || std::holds_alternative<double>(parse_number(node.scalar));
  if (plain_is_safe(node.scalar) && !(node.is_string && looks_typed)) return node.scalar;
  return escaped(node.scalar);
}

std::string key_text(const std::string& key) { return plain_is_safe(key) ? key : escaped(key); }

bool is_flat(const Node& node) {
  return std::all_of(node.items.begin(), node.items.end(), [](const Node& n) { return n.kind == Node::Kind::Scalar; });
}

void write_yaml(const Node& node, int indent, bool after_key, std::string& out) {
  const std::string pad(static_cast<std::size_t>(indent), ' ');
  switch (node.kind) {
    case Node::Kind::Null: out += after_key ? " null\n" : "null\n"; return;
    case Node::Kind::Scalar: out += (after_key ? " " : "") + scalar_text(node) + "\n"; return;
    case Node::Kind::List: {
      if (is_flat(node)) {
        std::vector<std::string> texts;
        for (const Node& n : node.items) texts.push_back(scalar_text(n));
        out += fmt::format("{}[{}]\n", after_key ? " " : "", fmt::join(texts, ", "));
        return;
      }
      if (after_key) out += '\n';
      for (const Node& n : node.items) {
        out += pad + "-";
        if (n.kind == Node::Kind::Map && !n.entries.empty()) {
          std::string item;
          write_yaml(n, indent + 2, false, item);
          out += ' ' + item.substr(static_cast<std::size_t>(indent) + 2);
        } else {
          write_yaml(n, indent + 2, true, out);
        }
      }
      return;
    }
    case Node::Kind::Map: {
      if (node.entries.empty()) {
        out += after_key ? " {}\n" : "{}\n";
        return;
      }
      if (after_key) out += '\n';
      for (const Entry& e : node.entries) {
        out += pad + key_text(e.key) + ":";
        write_yaml(e.value, indent + 2, true, out);
      }
      return;
    }
  }
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
  return std::all_of(entries.begin(), entries.end(), [&](const Entry& e) {
    const Node* theirs = other.find(e.key);
    return theirs && e.value.same_content(*theirs);
  });
}

std::string read_text_file(const fs::path& path, std::size_t limit) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::exists(status)) fail({path.string()}, "", "no such file");
  if (fs::is_directory(status)) fail({path.string()}, "", "is a directory; expected a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail({path.string()}, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit) {
      fail({path.string()}, "", fmt::format("is larger than {}, the most that such a file may have",
                                            human(Bytes(static_cast<double>(limit)))));
    }
  }
  return text;
}

Node load_document(const fs::path& path) {
  std::vector<fs::path> stack;
  std::size_t files = 0;
  return load_with_includes(path, stack, files);
}

void merge(Node& base, const Node& over) {
  if (base.kind != Node::Kind::Map || over.kind != Node::Kind::Map) {
    base = over;
    return;
  }
  for (const Entry& e : over.entries) {
    if (Node* mine = base.find(e.key); mine && mine->kind == Node::Kind::Map && e.value.kind == Node::Kind::Map) {
      merge(*mine, e.value);
    } else {
      base.set(e.key, e.value);
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
        fail({origin}, std::string(key_path),
             fmt::format("there is no element [{}]{}", step.key,
                         at->kind == Node::Kind::List ? fmt::format(" in a list of {}", at->items.size()) : ""));
      }
      at = &at->items[step.index];
      continue;
    }
    if (at->kind == Node::Kind::Null) *at = Node::map();
    if (at->kind != Node::Kind::Map) {
      fail({origin}, std::string(key_path), fmt::format("{} is not inside a map", in_quotes(step.key)));
    }
    Node* next = at->find(step.key);
    if (!next) next = &at->set(step.key, Node{});
    at = next;
  }
  *at = std::move(parsed);
}

std::string to_yaml(const Node& node) {
  std::string out;
  write_yaml(node, 0, false, out);
  return out;
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  const auto give_up = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fail({path.string()}, "", fmt::format("cannot be {}: {}", what, reason));
  };
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!out) give_up("written");
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) give_up("written");
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) {
    errno = error.value();
    give_up("written");
  }
}

}  // namespace moeplan
