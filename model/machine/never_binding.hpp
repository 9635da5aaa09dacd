// Links that never limit a transfer, because the links before or after them on every route do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/machine/topology.hpp"

namespace moeplan {

/// Core links whose constraint is implied by those of the links before or after them on every route, by orbit. With x
/// the largest fraction of the traffic entering a link's tail (leaving its head) that a route puts on the link, the
/// link carries at most x times the capacity of the links through which its routes enter (leave). `orbit` is the orbit
/// of each link; every route crosses the same orbits as one of `routes`.
[[nodiscard]] std::vector<bool> never_binding(const Topology& topology, const std::vector<std::int32_t>& orbit,
                                              std::size_t orbits, std::span<const Route* const> routes);

}  // namespace moeplan
