// Tables of measured training iterations in the columns that `moeplan score` reads (docs/runs.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "profiler/tables/table_reader.hpp"

namespace moeplan::profiler {

/// The columns of the format, in its order.
[[nodiscard]] const TableFormat& run_format();

enum class RunOutcome { Ok, OutOfMemory };

/// One measured training iteration. What the row leaves empty is absent, texts are empty.
struct RunRow {
  std::string id;       // the line number if the row names none
  std::string cluster;  // a name of configs/clusters
  std::int64_t world = 0;
  std::string model;  // a Hugging Face id, a name of configs/models, or a file
  std::string model_overrides, precision;
  std::optional<std::int64_t> tp = {}, sp = {}, pp = {}, vp = {};
  std::string layout;
  std::optional<std::int64_t> ep = {}, etp = {}, cp = {}, zero = {};
  std::optional<std::int64_t> micro_batch = {}, global_batch = {}, sequence_length = {};
  std::string routing, dispatcher;
  std::optional<std::int64_t> dispatcher_sms = {};
  std::string ep_overlap, recompute, recompute_layers, offload, gradient_dtype, optimizer_dtype, main_weights;
  std::optional<std::int64_t> overlap_gradients = {};  // 0 or 1
  std::optional<std::int64_t> loss_chunks = {};
  std::string cuda_graph, fusions, pytorch_modules, fp8_modules, stack;
  std::optional<Seconds> step_time = {};
  std::optional<double> tokens_per_s_per_gpu = {};
  std::optional<Bytes> peak_memory = {};
  /// What the peak counts: "tensors", with what the allocator holds between them "reserved", or "device" for all that
  /// the device has in use.
  std::string memory_counts;
  std::string memory_unit;  // of the peak as printed, which `peak_memory` takes for GiB: "GiB", or "GB" for 1e9 bytes
  RunOutcome outcome = RunOutcome::Ok;
  std::vector<std::string> groups = {};  // "delta:overlap", "rank:schedules" ...
  std::string source, notes;
  Location where = {};

  /// Whether the row states the precision, micro batch, global batch and sequence length: without them a prediction of
  /// its time is one of defaults, of which only differences within a group mean something.
  [[nodiscard]] bool states_its_work() const {
    return !precision.empty() && micro_batch && global_batch && sequence_length;
  }
  /// The measured time of a step of so many tokens; absent if the row gives neither a time nor tokens per second.
  [[nodiscard]] std::optional<Seconds> measured_step(double tokens) const;
};

/// The row as a line of CSV in the order of the columns, without a line break; the reverse of reading it.
[[nodiscard]] std::string csv_line(const RunRow& row);

/// Reads a table, plain or gzip. Raises InputError with the line and column of everything that is wrong: unknown or
/// missing columns, numbers below their range, unknown outcomes, a time next to an outcome of "oom".
[[nodiscard]] std::vector<RunRow> read_run_table(const std::filesystem::path& path);

}  // namespace moeplan::profiler
