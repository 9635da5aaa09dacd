#include "profiler/tables/measured_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/text/document.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::size_t kMostCsvBytes = std::size_t{64} << 20;
constexpr std::array<std::pair<std::string_view, double>, 4> kTimes{
    {{"time_s", 1.0}, {"time_ms", 1e-3}, {"time_us", 1e-6}, {"time_ns", 1e-9}}};

/// One line, indexed by column name.
class Row {
 public:
  Row(const std::vector<std::string>& names, std::vector<std::string_view> fields, Location where, Diagnostics& wrong)
      : names_(&names), fields_(std::move(fields)), where_(std::move(where)), wrong_(&wrong) {}

  [[nodiscard]] std::string_view text(std::string_view name) const {
    const auto it = std::find(names_->begin(), names_->end(), name);
    return it == names_->end() ? std::string_view() : trimmed(fields_[static_cast<std::size_t>(it - names_->begin())]);
  }
  std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most) const {
    const auto value = whole_number(text(name));
    if (value && *value >= least && *value <= most) return *value;
    complain(name, fmt::format("is {}; expected a whole number from {} to {}", in_quotes(text(name)), least, most));
    return least;
  }
  Seconds time() const {
    for (const auto& [name, unit] : kTimes) {
      if (std::find(names_->begin(), names_->end(), name) == names_->end()) continue;
      const auto value = decimal_number(text(name));
      constexpr double kLongest = 1e6;  // seconds: no single measurement takes eleven days
      if (value && *value > 0 && *value * unit <= kLongest) return Seconds(*value * unit);
      complain(name, fmt::format("is {}; expected a time above 0", in_quotes(text(name))));
    }
    return Seconds(1);
  }
  void complain(std::string_view column, std::string what) const {
    wrong_->add(where_, std::string(column), std::move(what));
  }
  [[nodiscard]] const Location& where() const { return where_; }

 private:
  const std::vector<std::string>* names_;
  std::vector<std::string_view> fields_;
  Location where_;
  Diagnostics* wrong_;
};

CollectiveSample collective_of(const Row& row) {
  CollectiveSample s{.collective = Collective::AllToAll,
                     .shape = {},
                     .n = Bytes(static_cast<double>(row.whole("bytes", 1, std::int64_t{1} << 50))),
                     .time = row.time(),
                     .in_place = false,
                     .dtype = std::string(row.text("dtype")),
                     .device = "",
                     .where = row.where()};
  std::vector<std::string> names;
  bool is_known = false;
  for (const auto& [collective, name] : kCollectiveNames) {
    names.emplace_back(name);
    if (row.text("collective") != name) continue;
    s.collective = collective;
    is_known = true;
  }
  const std::string name(row.text("collective"));
  if (!is_known) row.complain("collective", in_quotes(name) + " is no collective" + suggestion(name, names));
  constexpr std::int64_t kMostRanks = 1 << 20;
  s.shape.ranks = row.whole("ranks", 2, kMostRanks);
  s.shape.nodes = row.whole("nodes", 1, s.shape.ranks);
  const std::string_view in_place = row.text("in_place");
  s.in_place = in_place == "true";
  if (!in_place.empty() && in_place != "true" && in_place != "false") {
    row.complain("in_place", fmt::format("is {}; expected true or false", in_quotes(in_place)));
  }
  return s;
}

/// The canonical name of a number format; unknown names are returned unchanged.
std::string our_dtype(std::string_view name) {
  if (name == "bfloat16") return "bf16";
  if (name == "float16" || name == "half") return "fp16";
  if (name == "float32" || name == "float") return "fp32";
  return std::string(name);
}

GemmSample gemm_of(const Row& row) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  GemmSample s{.m = row.whole("m", 1, kMost),
               .n = row.whole("n", 1, kMost),
               .k = row.whole("k", 1, kMost),
               .dtype = our_dtype(row.text("dtype")),
               .time = row.time(),
               .where = row.where()};
  const bool is_known =
      std::any_of(kDtypeNames.begin(), kDtypeNames.end(), [&](const auto& d) { return d.second == s.dtype; });
  if (!is_known) row.complain("dtype", in_quotes(row.text("dtype")) + " is no number format");
  return s;
}

class CsvReader {
 public:
  explicit CsvReader(std::string name) : name_(std::move(name)) {}

  std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> read(std::string_view text) {
    int number = 0;
    bool has_header = false;
    for (std::string_view line : split(text, '\n')) {
      ++number;
      line = trimmed(line);
      if (line.empty() || line.front() == '#' || wrong_.is_full()) continue;
      if (has_header) {
        read_row(line, number);
      } else {
        read_header(line, number);
        has_header = true;
      }
    }
    if (!has_header) wrong_.add({name_}, "", "is empty; expected a line of column names");
    if (has_header && wrong_.empty() && collectives_.empty() && gemms_.empty()) {
      wrong_.add({name_}, "", "holds no measurement");
    }
    wrong_.throw_if_any();
    if (is_gemm_) return std::move(gemms_);
    return std::move(collectives_);
  }

 private:
  void read_header(std::string_view line, int number) {
    const Location where{name_, number};
    for (const std::string_view name : split(line, ',')) names_.emplace_back(trimmed(name));
    const auto has = [&](std::string_view n) { return std::find(names_.begin(), names_.end(), n) != names_.end(); };
    is_gemm_ = has("m");
    std::vector<std::string> known = is_gemm_ ? std::vector<std::string>{"m", "n", "k", "dtype"}
                                              : std::vector<std::string>{"collective", "ranks", "nodes", "bytes"};
    for (const std::string& name : known) {
      if (!has(name)) wrong_.add(where, name, "column is missing");
    }
    const auto times = std::count_if(kTimes.begin(), kTimes.end(), [&](const auto& t) { return has(t.first); });
    if (times != 1) wrong_.add(where, "", "expected one of the columns time_s, time_ms, time_us, time_ns");
    for (const auto& [name, unit] : kTimes) known.emplace_back(name);
    if (!is_gemm_) known.insert(known.end(), {"in_place", "dtype"});
    for (const std::string& name : names_) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        wrong_.add(where, "", in_quotes(name) + " is no known column" + suggestion(name, known));
      } else if (std::count(names_.begin(), names_.end(), name) > 1) {
        wrong_.add(where, name, "stands twice");
      }
    }
    wrong_.throw_if_any();
  }

  void read_row(std::string_view line, int number) {
    const Location where{name_, number};
    std::vector<std::string_view> fields = split(line, ',');
    if (fields.size() != names_.size()) {
      return wrong_.add(where, "", fmt::format("has {} values for {} columns", fields.size(), names_.size()));
    }
    if (collectives_.size() + gemms_.size() == kMostSamples) {
      wrong_.add(where, "", fmt::format("is beyond {} measurements", kMostSamples));
      wrong_.throw_if_any();
    }
    const Row row(names_, std::move(fields), where, wrong_);
    if (is_gemm_) {
      gemms_.push_back(gemm_of(row));
    } else {
      collectives_.push_back(collective_of(row));
    }
  }

  std::string name_;
  std::vector<std::string> names_;
  bool is_gemm_ = false;
  std::vector<CollectiveSample> collectives_;
  std::vector<GemmSample> gemms_;
  Diagnostics wrong_;
};

}  // namespace

std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> parse_measured_csv(std::string_view text,
                                                                                        const std::string& name) {
  return CsvReader(name).read(text);
}

std::variant<std::vector<CollectiveSample>, std::vector<GemmSample>> read_measured_csv(
    const std::filesystem::path& path) {
  return parse_measured_csv(read_text_file(path, kMostCsvBytes), path.string());
}

}  // namespace moeplan::profiler
