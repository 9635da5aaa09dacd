#include "profiler/tables/table_kind.hpp"

#include <algorithm>

#include "profiler/tables/collective_table.hpp"
#include "profiler/tables/dispatch_table.hpp"
#include "profiler/tables/operator_table.hpp"
#include "profiler/tables/run_table.hpp"

namespace moeplan::profiler {

namespace {

const TableFormat& format_of(TableKind kind) {
  switch (kind) {
    case TableKind::Operators: return operator_format();
    case TableKind::Runs: return run_format();
    case TableKind::Collectives: return collective_format();
    case TableKind::Dispatches: return dispatch_format();
  }
  return operator_format();
}

}  // namespace

TableKind table_kind(const std::filesystem::path& path) {
  const std::vector<std::string> header = header_of(path);
  const auto known = [&](TableKind kind) {
    const std::vector<std::string>& columns = format_of(kind).columns;
    return std::count_if(header.begin(), header.end(), [&](const std::string& name) {
      return std::find(columns.begin(), columns.end(), name) != columns.end();
    });
  };
  TableKind best = TableKind::Operators;
  for (const auto& [kind, name] : kTableKindNames) {
    if (known(kind) > known(best)) best = kind;
  }
  return best;
}

}  // namespace moeplan::profiler
