#include "profiler/tables/run_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>

#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

std::optional<double> positive_number(const TableLine& line, std::string_view column) {
  const std::string value = line.text(column);
  if (value.empty()) return std::nullopt;
  const auto number = decimal_number(value);
  if (number && *number > 0) return number;
  line.complain(column, fmt::format("is {}; expected a number above 0", in_quotes(value)));
  return std::nullopt;
}

/// A whole number in a range, absent if the row leaves it empty.
std::optional<std::int64_t> count(const TableLine& line, std::string_view column, std::int64_t least,
                                  std::int64_t most = std::int64_t{1} << 40) {
  const auto value = line.optional_whole(column);
  if (!value || (*value >= least && *value <= most)) return value;
  const std::string expected =
      most < 10 ? fmt::format("a number from {} to {}", least, most) : fmt::format("a number from {} on", least);
  line.complain(column, fmt::format("is {}; expected {}", *value, expected));
  return std::nullopt;
}

RunOutcome outcome_of(const TableLine& line) {
  const std::string value = line.text("outcome");
  if (value == "oom") return RunOutcome::OutOfMemory;
  if (!value.empty() && value != "ok") {
    const std::vector<std::string> known{"ok", "oom"};
    line.complain("outcome", fmt::format("is {}{}", in_quotes(value), suggestion(value, known)));
  }
  return RunOutcome::Ok;
}

std::vector<std::string> groups_of(const TableLine& line) {
  std::vector<std::string> out;
  const std::string text = line.text("group");
  for (const std::string_view part : split(text, ';')) {
    if (!trimmed(part).empty()) out.emplace_back(trimmed(part));
  }
  return out;
}

RunRow run_of(const TableLine& line) {
  RunRow row;
  row.where = line.where();
  row.id = line.text("id").empty() ? std::to_string(row.where.line) : line.text("id");
  row.cluster = line.text("cluster");
  row.world = line.positive("world");
  row.model = line.text("model");
  row.model_overrides = line.text("model_overrides");
  row.precision = line.text("precision");
  row.tp = count(line, "tp", 1);
  row.sp = count(line, "sp", 0, 1);
  row.pp = count(line, "pp", 1);
  row.vp = count(line, "vp", 1);
  row.layout = line.text("layout");
  row.ep = count(line, "ep", 1);
  row.etp = count(line, "etp", 1);
  row.cp = count(line, "cp", 1);
  row.zero = count(line, "zero", 0, 3);
  row.micro_batch = count(line, "micro_batch", 1);
  row.global_batch = count(line, "global_batch", 1);
  row.sequence_length = count(line, "sequence_length", 1);
  row.routing = line.text("routing");
  row.dispatcher = line.text("dispatcher");
  row.dispatcher_sms = count(line, "dispatcher_sms", 1);
  row.ep_overlap = line.text("ep_overlap");
  row.recompute = line.text("recompute");
  row.recompute_layers = line.text("recompute_layers");
  row.offload = line.text("offload");
  row.gradient_dtype = line.text("gradient_dtype");
  row.optimizer_dtype = line.text("optimizer_dtype");
  row.main_weights = line.text("main_weights");
  row.overlap_gradients = count(line, "overlap_gradients", 0, 1);
  row.loss_chunks = count(line, "loss_chunks", 1);
  row.cuda_graph = line.text("cuda_graph");
  row.fusions = line.text("fusions");
  row.pytorch_modules = line.text("pytorch_modules");
  row.fp8_modules = line.text("fp8_modules");
  row.stack = line.text("stack");
  if (const auto seconds = positive_number(line, "step_time_s")) row.step_time = Seconds(*seconds);
  row.tokens_per_s_per_gpu = positive_number(line, "tokens_s_gpu");
  if (const auto gib = positive_number(line, "peak_memory_gib")) row.peak_memory = Bytes(*gib * 1073741824.0);
  row.memory_counts = line.text("memory_counts");
  row.memory_unit = line.text("memory_unit");
  row.outcome = outcome_of(line);
  row.groups = groups_of(line);
  row.source = line.text("source");
  row.notes = line.text("notes");
  if (row.outcome == RunOutcome::OutOfMemory && (row.step_time || row.tokens_per_s_per_gpu))
    line.complain("outcome", "is \"oom\", but the row has a time");
  for (const char* needed : {"cluster", "model"}) {
    if (line.text(needed).empty()) line.complain(needed, "is empty");
  }
  return row;
}

}  // namespace

const TableFormat& run_format() {
  static const TableFormat kFormat{.noun = "runs",
                                   .columns = {"id",
                                               "cluster",
                                               "world",
                                               "model",
                                               "model_overrides",
                                               "precision",
                                               "tp",
                                               "sp",
                                               "pp",
                                               "vp",
                                               "layout",
                                               "ep",
                                               "etp",
                                               "cp",
                                               "zero",
                                               "micro_batch",
                                               "global_batch",
                                               "sequence_length",
                                               "routing",
                                               "dispatcher",
                                               "dispatcher_sms",
                                               "ep_overlap",
                                               "recompute",
                                               "recompute_layers",
                                               "offload",
                                               "gradient_dtype",
                                               "optimizer_dtype",
                                               "main_weights",
                                               "overlap_gradients",
                                               "loss_chunks",
                                               "cuda_graph",
                                               "fusions",
                                               "pytorch_modules",
                                               "fp8_modules",
                                               "stack",
                                               "step_time_s",
                                               "tokens_s_gpu",
                                               "peak_memory_gib",
                                               "memory_counts",
                                               "memory_unit",
                                               "outcome",
                                               "group",
                                               "source",
                                               "notes"},
                                   .required = {"cluster", "world", "model"}};
  return kFormat;
}

std::string csv_line(const RunRow& row) {
  const auto number = [](const std::optional<std::int64_t>& n) { return n ? fmt::format("{}", *n) : std::string(); };
  const auto real = [](std::optional<double> n) { return n ? fmt::format("{:.6g}", *n) : std::string(); };
  const auto seconds = row.step_time ? std::optional(row.step_time->value()) : std::nullopt;
  const auto gib = row.peak_memory ? std::optional(row.peak_memory->value() / 1073741824.0) : std::nullopt;
  const std::vector<std::string> fields{row.id,
                                        row.cluster,
                                        fmt::format("{}", row.world),
                                        row.model,
                                        row.model_overrides,
                                        row.precision,
                                        number(row.tp),
                                        number(row.sp),
                                        number(row.pp),
                                        number(row.vp),
                                        row.layout,
                                        number(row.ep),
                                        number(row.etp),
                                        number(row.cp),
                                        number(row.zero),
                                        number(row.micro_batch),
                                        number(row.global_batch),
                                        number(row.sequence_length),
                                        row.routing,
                                        row.dispatcher,
                                        number(row.dispatcher_sms),
                                        row.ep_overlap,
                                        row.recompute,
                                        row.recompute_layers,
                                        row.offload,
                                        row.gradient_dtype,
                                        row.optimizer_dtype,
                                        row.main_weights,
                                        number(row.overlap_gradients),
                                        number(row.loss_chunks),
                                        row.cuda_graph,
                                        row.fusions,
                                        row.pytorch_modules,
                                        row.fp8_modules,
                                        row.stack,
                                        real(seconds),
                                        real(row.tokens_per_s_per_gpu),
                                        real(gib),
                                        row.memory_counts,
                                        row.memory_unit,
                                        row.outcome == RunOutcome::Ok ? "ok" : "oom",
                                        fmt::format("{}", fmt::join(row.groups, ";")),
                                        row.source,
                                        row.notes};
  assert(fields.size() == run_format().columns.size() && "a field for each column");
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += (i == 0 ? "" : ",") + csv_field(fields[i]);
  return line;
}

std::optional<Seconds> RunRow::measured_step(double tokens) const {
  if (step_time) return step_time;
  if (!tokens_per_s_per_gpu) return std::nullopt;
  return Seconds(tokens / (static_cast<double>(world) * *tokens_per_s_per_gpu));
}

std::vector<RunRow> read_run_table(const std::filesystem::path& path) {
  std::vector<RunRow> rows;
  read_table(path, run_format(), [&](const TableLine& line) { rows.push_back(run_of(line)); });
  return rows;
}

}  // namespace moeplan::profiler
