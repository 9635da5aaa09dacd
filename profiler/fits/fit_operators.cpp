#include "profiler/fits/fit_operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "model/operators/operator_models.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "profiler/fits/pattern_search.hpp"
#include "profiler/scores/held_out.hpp"
#include "profiler/scores/operator_prediction.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::size_t kMostRows = 400;
constexpr double kSmallFlops = 1e8;  // products below measure the launch
constexpr double kSmallWeight = 0.15;

/// A kind of rows, the list of its entries, and their numbers that are fitted.
struct FittedList {
  std::string_view kind, list;
  std::vector<std::string_view> numbers;
};

const std::vector<FittedList>& fitted_lists() {
  static const std::vector<FittedList> kLists{
      {"gemm",
       "gemm",
       {"launch", "math", "power", "read", "write", "l2", "residency", "tile_start", "k_step", "split", "quantise",
        "scale_padding"}},
      {"grouped_gemm", "grouped_gemm", {"launch", "math", "memory", "tile_start"}},
      {"attention", "attention", {"launch", "math", "softmax", "start", "memory"}},
      {"fused_moe", "fused_moe", {"fixed", "around", "local_expert"}},
      {"kernel", "kernels", {"launch", "bytes_per_element"}}};
  return kLists;
}

const FittedList* list_of(const OperatorRow& row) {
  const auto& lists = fitted_lists();
  const auto it = std::find_if(lists.begin(), lists.end(), [&](const FittedList& l) { return l.kind == row.kind; });
  return it == lists.end() ? nullptr : &*it;
}

/// Rows that one entry answers.
struct Group {
  const FittedList* list = nullptr;
  std::string format;  // of a kernel: its name
  std::string library;
  bool is_backward = false;
  bool operator<(const Group& other) const {
    return std::tie(list->list, format, library, is_backward) <
           std::tie(other.list->list, other.format, other.library, other.is_backward);
  }
};

/// The library of a row without figures: what its source says, up to the first comma.
std::string library_of(const OperatorRow& row) {
  return row.kind == "kernel" ? kernel_name(row).second : row.source.substr(0, row.source.find(','));
}

bool is_held_out_row(const OperatorRow& row) {
  if (row.kind == "gemm") return is_held_out(gemm_shape(row));
  if (row.kind == "attention") return is_held_out(attention_shape(row));
  return is_held_out(row);
}

std::string text_of(const Node& entry, std::string_view key) {
  const Node* node = entry.find(key);
  return node ? node->scalar : "";
}

/// Whether an entry has the group's format and direction.
bool has_format(const Node& entry, const Group& group) {
  const bool is_kernel = group.list->kind == "kernel";
  if (text_of(entry, is_kernel ? "kernel" : "format") != group.format) return false;
  const bool has_directions = is_kernel || group.list->kind == "attention";
  return !has_directions || (text_of(entry, "backward") == "true") == group.is_backward;
}

bool is_of(const Node& entry, const Group& group) {
  return has_format(entry, group) &&
         text_of(entry, group.list->kind == "kernel" ? "implementation" : "library") == group.library;
}

/// The number of a text such as "2.643 us", and its unit.
struct NumberText {
  double value = 0;
  std::string unit;  // "" or " us"
};

NumberText number_text(const std::string& text) {
  const std::size_t end = text.find(' ');
  const auto parsed = parse_number(text.substr(0, end));
  const double* value = std::get_if<double>(&parsed);
  return {value ? *value : 0, end == std::string::npos ? "" : text.substr(end)};
}

/// A file with this entry alone, and what it refers to.
Node file_of(const Node& document, const FittedList& list, Node entry) {
  Node file = Node::map();
  for (const char* key : {"gpu", "num_sms"}) file.set(key, *document.find(key));
  Node origins = Node::map();
  origins.set("", Node::text("assumed: being fitted"));
  file.set("origins", std::move(origins));
  if (const Node* products = document.find("grouped_gemm"); products && list.kind == "fused_moe") {
    file.set("grouped_gemm", *products);
  }
  Node entries = Node::list();
  entries.items.push_back(std::move(entry));
  file.set(std::string(list.list), std::move(entries));
  return file;
}

/// Rows with their predictions by one entry.
class EntryRows {
 public:
  EntryRows(const Node& document, const Group& group, std::vector<const OperatorRow*> rows)
      : document_(document), group_(group), rows_(std::move(rows)) {}

  [[nodiscard]] std::vector<ScoredRow> scored(const Node& entry) const {
    const OperatorModels models = read_operator_models(file_of(document_, *group_.list, entry));
    std::vector<ScoredRow> out;
    for (const OperatorRow* row : rows_) {
      const Prediction p = prediction_of(*row, models);
      out.push_back({.id = "",
                     .text = "",
                     .measured = row->time,
                     .predicted = p.time,
                     .reason = p.reason,
                     .groups = {},
                     .is_fitted = !is_held_out_row(*row)});
    }
    return out;
  }

  /// Mean |ln(predicted / measured)| of the rows that are not held out, or of all; infinite for numbers that a file
  /// cannot have.
  [[nodiscard]] double error(const Node& entry, bool fits_all) const {
    std::vector<ScoredRow> rows;
    try {
      rows = scored(entry);
    } catch (const InputError&) {
      return std::numeric_limits<double>::infinity();
    }
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].predicted || (!rows[i].is_fitted && !fits_all)) continue;
      const bool is_small = flops_of(*rows_[i]) > 0 && flops_of(*rows_[i]) < kSmallFlops;
      const double weight = is_small ? kSmallWeight : 1;
      sum += weight * std::abs(std::log(*rows[i].predicted / rows[i].measured));
      weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
  }

  [[nodiscard]] ErrorSummary summary(const Node& entry, bool of_all) const {
    std::vector<ScoredRow> rows = scored(entry);
    if (!of_all) std::erase_if(rows, [](const ScoredRow& r) { return r.is_fitted; });
    return summarise(rows);
  }

 private:
  const Node& document_;
  const Group& group_;
  std::vector<const OperatorRow*> rows_;
};

/// At most kMostRows of them, evenly taken.
std::vector<const OperatorRow*> thinned(const std::vector<const OperatorRow*>& rows) {
  if (rows.size() <= kMostRows) return rows;
  std::vector<const OperatorRow*> out;
  for (std::size_t i = 0; i < kMostRows; ++i) out.push_back(rows[i * rows.size() / kMostRows]);
  return out;
}

/// The entry with the numbers that fit the rows best.
Node fitted_entry(const Node& start, const Group& group, const EntryRows& rows, bool fits_all) {
  std::vector<std::string> keys;
  std::vector<NumberText> numbers;
  std::vector<double> values;
  for (const std::string_view key : group.list->numbers) {
    if (!start.find(key)) continue;
    keys.emplace_back(key);
    numbers.push_back(number_text(start.find(key)->scalar));
    values.push_back(numbers.back().value);
  }
  const auto with = [&](std::span<const double> x) {
    Node entry = start;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Node& number = entry.set(keys[i], Node::number(0));
      number.scalar = fmt::format("{:.5g}{}", x[i], numbers[i].unit);
    }
    return entry;
  };
  return with(pattern_search(values, [&](std::span<const double> x) { return rows.error(with(x), fits_all); }));
}

/// The place of the group's entry, made from another library's if there is none; none without that either.
std::optional<std::pair<std::size_t, bool>> entry_of(Node& list, const Group& group) {
  const auto own = std::find_if(list.items.begin(), list.items.end(), [&](const Node& e) { return is_of(e, group); });
  if (own != list.items.end()) return std::pair(static_cast<std::size_t>(own - list.items.begin()), false);
  const auto other =
      std::find_if(list.items.begin(), list.items.end(), [&](const Node& e) { return has_format(e, group); });
  if (other == list.items.end()) return std::nullopt;
  Node entry = *other;
  entry.set(group.list->kind == "kernel" ? "implementation" : "library", Node::text(group.library));
  list.items.push_back(std::move(entry));
  return std::pair(list.items.size() - 1, true);
}

}  // namespace

FittedOperators fit_operators(Node document, std::span<const OperatorRow> rows, const std::string& source) {
  const OperatorModels models = read_operator_models(document);
  std::map<Group, std::vector<const OperatorRow*>> groups;
  for (const OperatorRow& row : rows) {
    const FittedList* list = list_of(row);
    const Prediction known = prediction_of(row, models);
    if (!list || (models.training && known.library == models.training->library)) continue;
    const bool is_kernel = row.kind == "kernel";
    groups[{.list = list,
            .format = is_kernel ? kernel_name(row).first : row.format,
            .library = known.time && !is_kernel ? known.library : library_of(row),
            .is_backward = row.phase == "backward"}]
        .push_back(&row);
  }
  FittedOperators out{.document = std::move(document), .fits = {}, .unfitted = {}};
  for (const auto& [group, all] : groups) {
    Node* list = out.document.find(group.list->list);
    const auto place = list ? entry_of(*list, group) : std::nullopt;
    if (!place) {
      out.unfitted.push_back({all.front()->where, "",
                              fmt::format("{} {} of {} is not fitted: the file has no entry of the kind, format and "
                                          "direction to begin with",
                                          group.format, group.list->kind, in_quotes(group.library))});
      continue;
    }
    Node& entry = list->items[place->first];
    const std::vector<const OperatorRow*> taken = thinned(all);
    const auto held_out = static_cast<std::size_t>(
        std::count_if(taken.begin(), taken.end(), [](auto* r) { return is_held_out_row(*r); }));
    const bool fits_all = held_out < kFewestHeldOut;
    const EntryRows of_entry(out.document, group, taken);
    const Node start = entry;
    Node fitted = fitted_entry(start, group, of_entry, fits_all);
    OperatorFit fit{.path = fmt::format("{}[{}]", group.list->list, place->first),
                    .library = group.library,
                    .format = group.format,
                    .is_new = place->second,
                    .before = of_entry.summary(start, fits_all),
                    .after = of_entry.summary(fitted, fits_all)};
    if (fits_all && group.list->kind != "gemm") fitted.set("fits_all", Node::boolean(true));
    entry = std::move(fitted);
    Node& origins = *out.document.find("origins");
    origins.set(fit.path,
                Node::text(fmt::format("measured: {}, {} rows, mean error {:.1f}% of {} rows {}", source, taken.size(),
                                       100 * fit.after.mape, fit.after.scored, fits_all ? "fitted to" : "held out")));
    out.fits.push_back(std::move(fit));
  }
  return out;
}

std::string fit_table(std::span<const OperatorFit> fits) {
  std::string out = fmt::format("{:<18} {:<12} {:<28} {:>6} {:>10} {:>10}\n", "entry", "format", "library", "rows",
                                "before", "after");
  for (const OperatorFit& f : fits) {
    out += fmt::format("{:<18} {:<12} {:<28} {:>6} {:>9.1f}% {:>9.1f}%{}\n", f.path, f.format, f.library,
                       f.after.scored, 100 * f.before.mape, 100 * f.after.mape, f.is_new ? "  new" : "");
  }
  return out;
}

}  // namespace moeplan::profiler
