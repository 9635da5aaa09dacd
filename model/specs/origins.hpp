// Where the numbers of a file come from: its `origins:` map.
//
//   origins:
//     "": "published: Mixtral of Experts, table 1"
//     attention.head_dim: "assumed: hidden_size / num_heads"
//
// A key is the path of a key, or of a map whose every number it covers ("": the whole file). A value says one of
// measured, datasheet, published or assumed, and after it the source or the reason.
#pragma once

#include "model/base/reader.hpp"

namespace moeplan {

/// Reads the optional `origins:` map of a document and reports entries that do not say where from.
void read_origins(MapReader& document);

}  // namespace moeplan
