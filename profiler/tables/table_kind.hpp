// The kinds of tables that `moeplan score` compares with predictions.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

namespace moeplan::profiler {

enum class TableKind { Operators, Collectives, Dispatches, Runs };

inline constexpr std::array<std::pair<TableKind, std::string_view>, 4> kTableKindNames{{
    {TableKind::Operators, "operators"},
    {TableKind::Collectives, "collectives"},
    {TableKind::Dispatches, "dispatches"},
    {TableKind::Runs, "runs"},
}};

/// The kind whose columns the header names most of, the first of them on a tie. Raises InputError if the file cannot be
/// read.
[[nodiscard]] TableKind table_kind(const std::filesystem::path& path);

}  // namespace moeplan::profiler
