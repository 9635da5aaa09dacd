// What is built in and which configurations are there, as `moeplan list` shows it.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace moeplan::cli {

/// The kinds of things that can be listed.
inline constexpr std::array<const char*, 16> kListed{
    "schedules",         "all-to-all",     "dispatchers", "collectives", "codecs",    "placements", "precisions",
    "topologies",        "gpus",           "clusters",    "models",      "workloads", "sweeps",     "frameworks",
    "collective-models", "operator-models"};

/// Names, each with a one-line description.
using Listing = std::vector<std::pair<std::string, std::string>>;

/// The things of a kind, which is one of kListed. Raises InputError if there is no configs/.
[[nodiscard]] Listing listing(const std::string& what);

/// A name and a summary in each line; wrapped with a hanging indent if `is_wrapped`.
[[nodiscard]] std::string list_page(const std::string& what, bool is_wrapped);
[[nodiscard]] std::string list_json(const std::string& what);

}  // namespace moeplan::cli
