#include "profiler/operator_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/to_index.hpp"
#include "model/text/line_reader.hpp"
#include "profiler/table_text.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::int64_t kMostExperts = 1 << 16;

/// Values of one line by column.
class Line {
 public:
  Line(const std::vector<std::string>& names, std::vector<std::string> fields, Location where, Diagnostics& wrong)
      : names_(names), fields_(std::move(fields)), where_(std::move(where)), wrong_(wrong) {}

  [[nodiscard]] std::string text(std::string_view name) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) return "";
    return std::string(trimmed(fields_[static_cast<std::size_t>(it - names_.begin())]));
  }
  [[nodiscard]] std::int64_t whole(std::string_view name) const {
    const std::string value = text(name);
    if (value.empty()) return 0;
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const auto number = whole_number(value);
    if (number && *number <= kMost) return *number;
    wrong_.add(where_, std::string(name), fmt::format("is {}; expected a whole number", in_quotes(value)));
    return 0;
  }
  [[nodiscard]] Seconds time() const {
    const std::string value = text("time_us");
    const auto number = decimal_number(value);
    if (number && *number > 0) return Seconds(*number * 1e-6);
    wrong_.add(where_, "time_us", fmt::format("is {}; expected a time above 0", in_quotes(value)));
    return Seconds(1);
  }

 private:
  const std::vector<std::string>& names_;
  std::vector<std::string> fields_;
  Location where_;
  Diagnostics& wrong_;
};

OperatorRow row_of(const Line& line, Location where) {
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
          .hidden = line.whole("hidden"),
          .expert_hidden = line.whole("expert_hidden"),
          .experts = line.whole("experts"),
          .top_k = line.whole("top_k"),
          .ep = line.whole("ep"),
          .tp = line.whole("tp"),
          .tokens = line.whole("tokens"),
          .loads = line.text("loads"),
          .time = line.time(),
          .source = line.text("source"),
          .where = std::move(where)};
}

void check_columns(const std::vector<std::string>& names, const Location& where, Diagnostics& wrong) {
  const std::vector<std::string>& known = operator_columns();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      wrong.add(where, "", in_quotes(name) + " is no column of a table of operators" + suggestion(name, known));
    } else if (std::count(names.begin(), names.end(), name) > 1) {
      wrong.add(where, name, "stands twice");
    }
  }
  for (const char* needed : {"gpu", "kind", "phase", "dtype", "time_us"}) {
    if (std::find(names.begin(), names.end(), needed) == names.end()) wrong.add(where, needed, "column is missing");
  }
}

/// Rows of all groups: "64" is of each of `groups`, "64|0|3" of one after the other.
double total_rows(const OperatorRow& row) {
  double sum = 0;
  const std::vector<std::string_view> parts = split(row.rows, '|');
  for (const std::string_view part : parts) sum += static_cast<double>(whole_number(part).value_or(0));
  return parts.size() == 1 ? sum * static_cast<double>(row.groups) : sum;
}

}  // namespace

const std::vector<std::string>& operator_columns() {
  static const std::vector<std::string> kColumns{
      "gpu",        "kind",   "phase",           "dtype",         "m",           "n",        "k",
      "groups",     "rows",   "sequence_length", "batch",         "query_heads", "kv_heads", "head_dim",
      "v_head_dim", "causal", "hidden",          "expert_hidden", "experts",     "top_k",    "ep",
      "tp",         "tokens", "loads",           "time_us",       "source",      "notes",    "group"};
  return kColumns;
}

std::vector<OperatorRow> read_operator_table(const std::filesystem::path& path) {
  LineReader lines(path);
  Diagnostics wrong;
  std::vector<std::string> names;
  std::vector<OperatorRow> rows;
  while (const auto line = lines.next()) {
    if (trimmed(*line).empty() || line->front() == '#') continue;
    const Location where{lines.file(), lines.line()};
    auto fields = csv_fields(*line);
    if (!fields) {
      wrong.add(where, "", "has a quote that is not closed");
    } else if (names.empty()) {
      names = std::move(*fields);
      check_columns(names, where, wrong);
      wrong.throw_if_any();
    } else if (fields->size() != names.size()) {
      wrong.add(where, "", fmt::format("has {} values for {} columns", fields->size(), names.size()));
    } else {
      rows.push_back(row_of(Line(names, std::move(*fields), where, wrong), where));
    }
    if (wrong.is_full()) break;
  }
  if (rows.empty() && wrong.empty()) wrong.add({path.string()}, "", "holds no measurement");
  wrong.throw_if_any();
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
          .is_backward = row.phase == "backward"};
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
