// Where the numbers of a GPU or cluster file come from.
//
// A document's `origins:` map goes from a key path, or a prefix of one, to a sentence that starts with its mark:
//   origins: {"": "datasheet: ...", "template.intra_node": "measured: ...", "links[0].latency": "assumed: ..."}
// The longest prefix wins; "" covers the whole document. A map inside the document that has an `origins:` of its own
// (an embedded GPU) is covered by that one alone. A value set on the command line is "assumed: set on the command
// line".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/document.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Reads and checks the optional `origins:` of a document: every entry has a known mark and names a key that exists.
void read_origins(MapReader& document);

/// Reports every number below `document` that no origin covers, except below the keys in `elsewhere`, which are checked
/// by their own readers. Names, ends of links and positions (`node`, `a`, `b`) are no physical numbers.
void check_origins(MapReader& document, std::span<const std::string_view> elsewhere = {});

/// Writes into `origins:` that the numbers set on the command line were, so that the document says it once it is
/// embedded elsewhere.
void record_overrides(Node& document);

/// "template.nodes = 4: why", one a number that is marked assumed, in the order written.
[[nodiscard]] std::vector<std::string> assumed_numbers(const Node& document);

}  // namespace moeplan
