#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan {

namespace {

bool plain_is_safe(const std::string& s) {
  static const std::set<std::string> kNotText{"", "null", "...", "---"};  // null, and YAML's document markers
  if (kNotText.contains(s) || s.front() == ' ' || s.back() == ' ') return false;
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./ ()=";
  if (s.find_first_not_of(kLetters) != std::string::npos) return false;
  static constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
  if (s.front() == '-') return s.size() > 1 && s[1] >= '0' && s[1] <= '9';
  return kFirst.find(s.front()) != std::string_view::npos;
}

/// The text in double quotes. Invalid UTF-8 (possible in file names) is replaced by U+FFFD.
std::string escaped(std::string s) {
  while (const auto invalid = first_invalid_utf8(s)) s.replace(*invalid, 1, "\xef\xbf\xbd");
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

/// The scalar; quoted text that would parse as null or as a typed scalar keeps its quotes.
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

std::string to_yaml(const Node& node) {
  std::string out;
  write_yaml(node, 0, false, out);
  return out;
}

}  // namespace moeplan
