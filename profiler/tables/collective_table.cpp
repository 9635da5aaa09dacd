#include "profiler/tables/collective_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan::profiler {

namespace {

CollectiveRow collective_row(const TableLine& line) {
  CollectiveRow row{.cluster = line.text("cluster"),
                    .op = line.text("op"),
                    .ranks = line.positive("ranks"),
                    .ranks_per_node = line.optional_whole("ranks_per_node").value_or(0),
                    .bytes = Bytes(static_cast<double>(line.positive("bytes"))),
                    .in_place = line.whole("in_place") != 0,
                    .time = line.time("time_us"),
                    .source = line.text("source"),
                    .where = line.where()};
  if (row.ranks_per_node < 1 || row.ranks % row.ranks_per_node != 0) {
    line.complain("ranks_per_node", fmt::format("is {}; expected a divisor of the {} ranks",
                                                in_quotes(line.text("ranks_per_node")), row.ranks));
    row.ranks_per_node = row.ranks;
  }
  return row;
}

}  // namespace

const TableFormat& collective_format() {
  static const TableFormat kFormat{.noun = "collectives",
                                   .columns = {"cluster", "op", "ranks", "ranks_per_node", "bytes", "in_place",
                                               "time_us", "source", "notes", "group"},
                                   .required = {"cluster", "op", "ranks", "ranks_per_node", "bytes", "time_us"}};
  return kFormat;
}

std::vector<CollectiveRow> read_collective_table(const std::filesystem::path& path) {
  std::vector<CollectiveRow> rows;
  read_table(path, collective_format(), [&](const TableLine& line) { rows.push_back(collective_row(line)); });
  return rows;
}

}  // namespace moeplan::profiler
