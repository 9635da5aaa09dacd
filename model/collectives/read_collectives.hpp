// Reader of the list `collectives` of an entry in a file of configs/collectives.
#pragma once

#include <initializer_list>
#include <vector>

#include "model/collectives/collective.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The collectives that an entry's numbers apply to, at least one and each of `possible`.
[[nodiscard]] std::vector<Collective> read_collectives(MapReader& entry, std::initializer_list<Collective> possible);

}  // namespace moeplan
