#include "profiler/tables/operator_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/to_index.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::int64_t kMostExperts = 1 << 16;

OperatorRow row_of(const TableLine& line) {
  return {.gpu = line.text("gpu"),
          .kind = line.text("kind"),
          .phase = line.text("phase"),
          .format = line.text("dtype"),
          .m = line.whole("m"),
          .n = line.whole("n"),
          .k = line.whole("k"),
          .groups = line.whole("groups"),
          .rows = line.text("rows"),
          .sequence_length = line.whole("sequence_length"),
          .batch = line.whole("batch"),
          .query_heads = line.whole("query_heads"),
          .kv_heads = line.whole("kv_heads"),
          .head_dim = line.whole("head_dim"),
          .v_head_dim = line.whole("v_head_dim"),
          .causal = line.whole("causal"),
          .window = line.whole("window"),
          .hidden = line.whole("hidden"),
          .expert_hidden = line.whole("expert_hidden"),
          .experts = line.whole("experts"),
          .top_k = line.whole("top_k"),
          .ep = line.whole("ep"),
          .tp = line.whole("tp"),
          .tokens = line.whole("tokens"),
          .loads = line.text("loads"),
          .time = line.time("time_us"),
          .source = line.text("source"),
          .where = line.where()};
}

/// Rows of all groups: "64" is of each of `groups`, "64|0|3" of one after the other.
double total_rows(const OperatorRow& row) {
  double sum = 0;
  const std::vector<std::string_view> parts = split(row.rows, '|');
  for (const std::string_view part : parts) sum += static_cast<double>(whole_number(part).value_or(0));
  return parts.size() == 1 ? sum * static_cast<double>(row.groups) : sum;
}

}  // namespace

const TableFormat& operator_format() {
  static const TableFormat kFormat{.noun = "operators",
                                   .columns = {"gpu",     "kind",        "phase",    "dtype",         "m",
                                               "n",       "k",           "groups",   "rows",          "sequence_length",
                                               "batch",   "query_heads", "kv_heads", "head_dim",      "v_head_dim",
                                               "causal",  "window",      "hidden",   "expert_hidden", "experts",
                                               "top_k",   "ep",          "tp",       "tokens",        "loads",
                                               "time_us", "source",      "notes",    "group"},
                                   .required = {"gpu", "kind", "phase", "dtype", "time_us"}};
  return kFormat;
}

std::vector<OperatorRow> read_operator_table(const std::filesystem::path& path) {
  std::vector<OperatorRow> rows;
  read_table(path, operator_format(), [&](const TableLine& line) { rows.push_back(row_of(line)); });
  return rows;
}

GemmShape gemm_shape(const OperatorRow& row) { return {row.m, row.n, row.k}; }

AttentionShape attention_shape(const OperatorRow& row) {
  return {.batch = row.batch,
          .sequence_length = row.sequence_length,
          .query_heads = row.query_heads,
          .kv_heads = row.kv_heads,
          .head_dim = row.head_dim,
          .v_head_dim = row.v_head_dim > 0 ? row.v_head_dim : row.head_dim,
          .is_causal = row.causal != 0,
          .is_backward = row.phase == "backward",
          .window = row.window};
}

std::vector<GemmShape> grouped_shapes(const OperatorRow& row) {
  std::vector<GemmShape> out;
  const std::vector<std::string_view> parts = split(row.rows, '|');
  if (row.groups > kMostExperts) return {};
  for (const std::string_view part : parts) {
    const auto rows = whole_number(part);
    if (!rows) return {};
    const GemmShape shape = row.phase == "wgrad" ? GemmShape{row.m, row.n, *rows} : GemmShape{*rows, row.n, row.k};
    out.insert(out.end(), parts.size() == 1 ? to_index(row.groups) : 1, shape);
  }
  return out;
}

FusedMoeShape layer_shape(const OperatorRow& row) {
  return {.hidden = row.hidden,
          .expert_hidden = row.expert_hidden,
          .experts = row.experts,
          .top_k = row.top_k,
          .ep = std::max<std::int64_t>(row.ep, 1),
          .tp = std::max<std::int64_t>(row.tp, 1),
          .tokens = row.tokens};
}

std::optional<std::vector<ExpertLoad>> expert_loads(const OperatorRow& row) {
  if (row.experts > kMostExperts || row.top_k > row.experts) return std::nullopt;
  if (row.loads == "balanced") return balanced_loads(layer_shape(row));
  if (row.loads == "random") return random_loads(layer_shape(row));
  std::vector<ExpertLoad> loads;
  for (const std::string_view part : split(row.loads, '|')) {
    const auto rows = whole_number(part);
    if (!rows) return std::nullopt;
    loads.push_back({static_cast<double>(*rows), 1});
  }
  return loads;
}

std::pair<std::string, std::string> kernel_name(const OperatorRow& row) {
  const std::string name = row.source.substr(0, row.source.find(' '));
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return {};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

double kernel_elements(const OperatorRow& row) {
  const auto product = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  if (row.m > 0) return product(row.m, row.n);
  return product(row.batch, row.sequence_length) * product(row.query_heads + row.kv_heads, row.head_dim);
}

double flops_of(const OperatorRow& row) {
  const auto product = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  if (row.kind == "gemm") return 2 * product(row.m, row.n) * static_cast<double>(row.k);
  if (row.kind == "grouped_gemm") {
    const std::int64_t inner = row.phase == "wgrad" ? row.m : row.k;
    return 2 * total_rows(row) * product(row.n, inner);
  }
  if (row.kind == "attention") return attention_flops(attention_shape(row));
  if (row.kind == "fused_moe") {
    const double selections = product(row.tokens, row.top_k) / static_cast<double>(std::max<std::int64_t>(row.ep, 1));
    const double columns =
        static_cast<double>(row.expert_hidden) / static_cast<double>(std::max<std::int64_t>(row.tp, 1));
    return 6 * selections * static_cast<double>(row.hidden) * columns * (row.phase == "backward" ? 2 : 1);
  }
  return 0;
}

}  // namespace moeplan::profiler
