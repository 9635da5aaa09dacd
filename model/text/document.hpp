// A configuration document: a tree of maps, lists and scalars in which every node knows where it was written.
//
// YAML and JSON parse into the same tree, so one strict reader (reader.hpp) serves both. Scalars stay text until a
// reader gives them a type: `010` and `no` mean what their reader says, never what YAML 1.1 says.
// Refused, with file:line:col: duplicate keys, anchors, aliases and tags, several documents in a file, nesting deeper
// than 64, files (with all they include) over 4 MiB, more than a million values, keys over 200 bytes, what is not
// UTF-8, NUL and other control characters, and everything that the parser itself refuses. Reading 4 MiB of YAML takes
// about a second and at most some 600 MB.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan {

struct Entry;

struct Node {
  enum class Kind { Null, Scalar, List, Map };

  Kind kind = Kind::Null;
  std::string scalar;          // Kind::Scalar
  bool is_string = false;      // the scalar was quoted: text even where it looks like a number
  std::vector<Node> items;     // Kind::List
  std::vector<Entry> entries;  // Kind::Map, in the order written, keys unique
  Location where;

  [[nodiscard]] static Node map();
  [[nodiscard]] static Node list();
  [[nodiscard]] static Node text(std::string value);  // a string scalar
  [[nodiscard]] static Node number(double value);     // shortest text that reads back exactly
  [[nodiscard]] static Node integer(long long value);
  [[nodiscard]] static Node boolean(bool value);

  /// The value of a map's key, or null.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);
  /// Sets a map's key, replacing what is there.
  Node& set(std::string key, Node value);

  /// Equal content; places do not count, and neither does the order of a map's keys.
  [[nodiscard]] bool same_content(const Node& other) const;
};

struct Entry {
  std::string key;
  Location where;
  Node value;
};

/// `name` is used in messages. Raises InputError.
[[nodiscard]] Node parse_yaml(std::string_view text, const std::string& name);
[[nodiscard]] Node parse_json(std::string_view text, const std::string& name);

/// Reads a whole regular file of at most `limit` bytes. Raises InputError.
inline constexpr std::size_t kConfigSizeLimit = std::size_t{4} << 20;
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit = kConfigSizeLimit);

/// A configuration file (JSON if it ends in .json, else YAML) with its `include:` files merged in. `include:` is a path
/// or a list of paths relative to the including file; later ones win over earlier ones, the file itself over all; maps
/// merge key by key, everything else is replaced. Raises InputError, for an include cycle too.
[[nodiscard]] Node load_document(const std::filesystem::path& path);

/// Sets `a.b[2].c` in the document. The parents must exist where they are list elements; missing maps are made.
/// At most 64 steps. The value is read as a YAML scalar or flow collection. Raises InputError that names `origin` ("-C
/// cluster.x=1").
void override_value(Node& document, std::string_view key_path, std::string_view value, const std::string& origin);

/// Merges `over` into `base`: maps key by key, everything else replaced.
void merge(Node& base, Node over);

/// YAML block text, two-space indent, that parses back to the same content. Deterministic.
[[nodiscard]] std::string to_yaml(const Node& node);

/// Writes a file as a whole or not at all: to a temporary file beside it, then renamed. A link is followed; a device or
/// pipe (/dev/stdout) is written as it is. Raises InputError; the old file is then untouched.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace moeplan
