// Provenance of the numbers in a GPU or cluster file.
//
// A document's `origins:` map maps a key path, or a prefix of one, to a sentence that starts with a mark:
//   origins: {"": "datasheet: ...", "template.intra_node": "measured: ...", "links[0].latency": "assumed: ..."}
// The longest prefix applies; "" covers the whole document. A nested map with its own `origins:` (an embedded GPU) is
// covered by that map alone. A value set on the command line is "assumed: set on the command line".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/document.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Reads and checks the optional `origins:` of a document: every entry must have a known mark and name an existing key.
void read_origins(MapReader& document);

/// Reports every number below `document` that no origin covers, except below the keys in `elsewhere`, which their own
/// readers check. Names, link ends and positions (`node`, `a`, `b`) are not physical numbers.
void check_origins(MapReader& document, std::span<const std::string_view> elsewhere = {});

/// Removes the entries of every `origins:` that name keys which a value set on the command line replaced: with
/// `attention={...}`, that of attention.num_heads where the new value has no such key. Those of replaced keys
/// themselves say that they were set there.
void drop_replaced_origins(Node& document);

/// Records in `origins:` which numbers were set on the command line, so that the information is kept when the document
/// is embedded elsewhere.
void record_overrides(Node& document);

/// Whether a node was set on the command line.
[[nodiscard]] bool set_on_command_line(const Node& node);

/// The origin that applies to the key path of a document: that of its longest prefix; "" if there is none.
[[nodiscard]] std::string origin_at(const Node& document, std::string_view path);

/// One entry "template.nodes = 4: why" per number that is marked assumed, in document order.
[[nodiscard]] std::vector<std::string> assumed_numbers(const Node& document);

}  // namespace moeplan
