#include "profiler/tables/dispatch_table.hpp"

#include <fmt/format.h>

namespace moeplan::profiler {

namespace {

DispatchRow dispatch_row(const TableLine& line) {
  DispatchRow row{.cluster = line.text("cluster"),
                  .dispatcher = line.text("dispatcher"),
                  .mode = line.text("mode"),
                  .sms = line.optional_whole("sms"),
                  .ranks = line.positive("ranks"),
                  .nodes = line.optional_whole("nodes").value_or(0),
                  .tokens = line.positive("tokens"),
                  .hidden = line.positive("hidden"),
                  .top_k = line.positive("top_k"),
                  .experts = line.positive("experts"),
                  .dispatch_format = line.text("dispatch_dtype"),
                  .combine_format = line.text("combine_dtype"),
                  .dispatch = line.time("dispatch_us"),
                  .combine = line.time("combine_us"),
                  .source = line.text("source"),
                  .where = line.where()};
  if (row.nodes < 1 || row.ranks % row.nodes != 0) {
    line.complain("nodes",
                  fmt::format("is {}; expected a divisor of the {} ranks", in_quotes(line.text("nodes")), row.ranks));
    row.nodes = 1;
  }
  if (row.top_k > row.experts) line.complain("top_k", fmt::format("is {} of {} experts", row.top_k, row.experts));
  return row;
}

}  // namespace

const TableFormat& dispatch_format() {
  static const TableFormat kFormat{
      .noun = "dispatches",
      .columns = {"cluster", "dispatcher", "mode", "sms", "ranks", "nodes", "tokens", "hidden", "top_k", "experts",
                  "dispatch_dtype", "combine_dtype", "dispatch_us", "combine_us", "source", "notes", "group"},
      .required = {"cluster", "dispatcher", "ranks", "nodes", "tokens", "hidden", "top_k", "experts", "dispatch_us",
                   "combine_us"}};
  return kFormat;
}

std::vector<DispatchRow> read_dispatch_table(const std::filesystem::path& path) {
  std::vector<DispatchRow> rows;
  read_table(path, dispatch_format(), [&](const TableLine& line) { rows.push_back(dispatch_row(line)); });
  return rows;
}

}  // namespace moeplan::profiler
