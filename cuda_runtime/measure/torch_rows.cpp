#include "cuda_runtime/measure/torch_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "cuda_runtime/measure/operator_rows.hpp"
#include "cuda_runtime/measure/torch_program.hpp"
#include "model/text/document.hpp"
#include "profiler/fits/source_text.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runtime {

namespace {

using profiler::csv_fields;
using profiler::decimal_number;
using profiler::split;
using profiler::trimmed;
using profiler::whole_number;

/// Columns that hold text; the others but the time hold whole numbers.
constexpr std::array<std::string_view, 5> kTexts{"gpu", "kind", "phase", "dtype", "source"};
constexpr std::array<std::string_view, 3> kKinds{"attention", "grouped_gemm", "kernel"};

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& all, std::string_view text) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

/// What is wrong with a field; nothing for most.
std::optional<std::string> field_problem(std::string_view column, const std::string& field, std::string_view gpu) {
  const auto wrong = [&](std::string_view expected) {
    return fmt::format("{} is \"{}\"; expected {}", column, profiler::plain(field), expected);
  };
  if (column == "gpu" && field != gpu) return wrong(gpu);
  if (column == "kind" && !is_in(kKinds, field)) return wrong(fmt::format("{}", fmt::join(kKinds, ", ")));
  if (column == "time_us" && !(decimal_number(field).value_or(0) > 0)) return wrong("a time above 0");
  if (is_in(kTexts, column) || column == "time_us" || field.empty()) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // as read_table()
  const auto number = whole_number(field);
  return number && *number <= kMost ? std::nullopt : std::optional(wrong("a whole number"));
}

std::optional<std::string> row_problem(std::string_view line, std::string_view gpu) {
  static const std::vector<std::string_view> kColumns = split(kOperatorColumns, ',');
  const auto fields = csv_fields(line);
  if (!fields) return "a quote is not closed";
  if (fields->size() != kColumns.size())
    return fmt::format("it has {} fields; expected {}", fields->size(), kColumns.size());
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    if (auto problem = field_problem(kColumns[i], (*fields)[i], gpu)) return problem;
  }
  return std::nullopt;
}

/// The last line on standard error that is no note: of an uncaught exception, what it says.
std::string last_words(std::string_view err) {
  std::string last;
  for (const std::string_view line : split(err, '\n')) {
    if (!trimmed(line).empty() && !line.starts_with("note: ")) last = profiler::plain(std::string(trimmed(line)));
  }
  return last;
}

/// Why the program did not do all of its work; "" if it did.
std::string failure_of(const ProgramEnd& end) {
  constexpr int kSignalled = 128;
  if (end.is_late) return "not done in its time";
  if (end.code > kSignalled) return fmt::format("ended by signal {}", end.code - kSignalled);
  if (end.code == 0) return "";
  const std::string words = last_words(end.err);
  return words.empty() ? fmt::format("ended with code {}", end.code) : words;
}

/// Adds the lines that are rows, and notes about those that are none. Returns how many are.
std::int64_t keep_rows(const ProgramEnd& end, std::string_view gpu, bool has_failed, TorchRows& out) {
  constexpr std::int64_t kMostNotes = 3;
  std::vector<std::string_view> lines = split(end.out, '\n');
  if (has_failed) lines.pop_back();  // no line end: it was being written
  std::int64_t number = 0, kept = 0, left_out = 0;
  for (const std::string_view line : lines) {
    ++number;
    if (trimmed(line).empty()) continue;
    const auto problem = row_problem(trimmed(line), gpu);
    if (!problem) {
      out.rows += fmt::format("{}\n", trimmed(line));
      ++kept;
    } else if (++left_out <= kMostNotes) {
      out.notes.push_back(fmt::format("line {} of the Python program's output is left out: {}", number, *problem));
    }
  }
  if (left_out > kMostNotes)
    out.notes.push_back(fmt::format("{} more lines of its output are left out", left_out - kMostNotes));
  return kept;
}

}  // namespace

std::string python_interpreter() {
  const char* given = std::getenv("MOEPLAN_PYTHON");
  return given == nullptr || *given == '\0' ? "python3" : given;
}

TorchRows rows_of(const ProgramEnd& end, std::string_view gpu) {
  TorchRows out;
  if (end.is_interrupted) {
    out.is_interrupted = true;
    return out;
  }
  for (const std::string_view line : split(end.err, '\n')) {
    if (line.starts_with("note: ")) out.notes.emplace_back(line.substr(line.find(' ') + 1));
  }
  const std::string failure = failure_of(end);
  const std::int64_t kept = keep_rows(end, gpu, !failure.empty(), out);
  if (failure.empty()) return out;
  out.notes.push_back(
      kept == 0
          ? fmt::format("attention and kernels were not measured: {}; set MOEPLAN_PYTHON to a Python with PyTorch "
                        "2.5 or later that sees the GPU (docs/cuda.md)",
                        failure)
          : fmt::format("attention and kernels were measured in part: the Python program failed after {} rows, "
                        "which are in the table: {}",
                        kept, failure));
  return out;
}

TorchRows torch_rows(const TorchRequest& request, const std::filesystem::path& folder) {
  const std::filesystem::path program = folder / "torch_operators.py";
  write_file_atomically(program, torch_program());
  std::vector<std::string> command{request.python, program.string(), request.gpu,
                                   fmt::format("{:.3f}", request.budget.value())};
  // One argument each, so that a name may begin with a dash.
  if (!request.attention.empty()) command.push_back("--attention-forward=" + request.attention);
  if (!request.attention_backward.empty()) command.push_back("--attention-backward=" + request.attention_backward);
  return rows_of(run_program(command, request.budget + request.grace), request.gpu);
}

}  // namespace moeplan::runtime
