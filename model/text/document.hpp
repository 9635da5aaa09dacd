// A configuration document: a tree of maps, lists and scalars in which every node records its source location.
//
// YAML and JSON parse into the same tree, so that one strict reader (reader.hpp) serves both. Scalars remain text until
// a reader gives them a type: `010` and `no` are interpreted by that reader, never by the rules of YAML 1.1.
//
// Rejected, with file:line:col: duplicate keys, anchors, aliases and tags, several documents in a file, nesting deeper
// than 64, more than 4 MiB in all (included files counted), more than a million values, keys over 200 bytes, invalid
// UTF-8, NUL and other control characters, and everything that the parser itself rejects. Reading 4 MiB of YAML takes
// about a second and at most about 600 MB.
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
  bool is_string = false;      // the scalar was quoted: text even if it looks like a number
  std::vector<Node> items;     // Kind::List
  std::vector<Entry> entries;  // Kind::Map, in the order written, keys unique
  Location where;

  [[nodiscard]] static Node map();
  [[nodiscard]] static Node list();
  [[nodiscard]] static Node text(std::string value);   // a string scalar
  [[nodiscard]] static Node plain(std::string value);  // a scalar as written without quotes: also a number or a boolean
  [[nodiscard]] static Node number(double value);      // shortest text that parses back to the same value
  [[nodiscard]] static Node integer(long long value);
  [[nodiscard]] static Node boolean(bool value);

  /// The value of a map's key, or null.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);
  /// Sets a map's key, replacing any existing value.
  Node& set(std::string key, Node value);

  /// Whether the content is equal, ignoring source locations and the order of map keys.
  [[nodiscard]] bool same_content(const Node& other) const;
};

struct Entry {
  std::string key;
  Location where;
  Node value;
};

/// Parses a document; `name` identifies it in messages. Raises InputError.
[[nodiscard]] Node parse_yaml(std::string_view text, const std::string& name);
[[nodiscard]] Node parse_json(std::string_view text, const std::string& name);

/// Reads an entire regular file of at most `limit` bytes. Raises InputError.
inline constexpr std::size_t kConfigSizeLimit = std::size_t{4} << 20;
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit = kConfigSizeLimit);

/// Loads a configuration file (JSON if its name ends in .json, otherwise YAML) and merges its `include:` files into it.
/// `include:` is a path or a list of paths relative to the including file. Later includes override earlier ones, and
/// the file itself overrides all of them; maps merge key by key, everything else is replaced. Raises InputError, also
/// for an include cycle.
[[nodiscard]] Node load_document(const std::filesystem::path& path);

/// Sets `a.b[2].c` in the document. Parents that are list elements must exist; missing maps are created. At most 64
/// path components. The value is parsed as a YAML scalar or flow collection. Raises InputError, which names `origin`
/// ("-C cluster.x=1").
void override_value(Node& document, std::string_view key_path, std::string_view value, const std::string& origin);

/// Merges `over` into `base`: maps key by key, everything else is replaced.
void merge(Node& base, Node over);

/// YAML in block style, indented by two spaces, that parses back to the same content. Deterministic.
[[nodiscard]] std::string to_yaml(const Node& node);

/// What the path names once symbolic links are followed, whether or not it exists; the path itself if it is no link.
[[nodiscard]] std::filesystem::path link_target(const std::filesystem::path& path);

/// Writes a file atomically: to a temporary file in the same directory, which is written to disk and then renamed. A
/// symbolic link is followed, also to a file that does not exist yet; a device or pipe (/dev/stdout) is written
/// directly. Raises InputError, in which case the old file is unchanged.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace moeplan
