// Reading and writing of routing traces in CSV format.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <tuple>

#include "model/text/document.hpp"
#include "model/text/line_reader.hpp"
#include "model/workload/routing_trace.hpp"

namespace moeplan {

namespace {

constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kMostIterations = 1'000'000'000'000'000;
constexpr std::int64_t kMostLayers = 100'000;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

class TraceReader {
 public:
  explicit TraceReader(const std::filesystem::path& path) : lines_(path) {}

  RoutingTrace read() {
    read_header();
    while (const auto line = lines_.next()) read_row(*line);
    diagnostics_.throw_if_any();
    if (rows_.empty()) lines_.fail(0, "has no rows");
    order();
    check_complete();
    return assembled();
  }

 private:
  struct Row {
    std::int64_t iteration;
    std::int32_t layer;
    std::int32_t rank;
    std::int32_t line;
    std::uint32_t position;  // of its counts, in rows

    [[nodiscard]] auto key() const { return std::tuple(iteration, layer, rank); }
  };

  void complain(int line, std::string message) {
    diagnostics_.add({lines_.file(), line, 0}, "", std::move(message));
    if (diagnostics_.list().size() >= kMostErrors) diagnostics_.throw_if_any();
  }

  void read_header() {
    const auto line = lines_.next();
    if (!line) lines_.fail(0, "is empty; expected a routing trace: iteration,layer,rank,e0,e1,...");
    std::string_view rest = *line;
    for (const std::string_view start : {"iteration,layer,rank,", "iter,layer,rank,"}) {
      if (!rest.starts_with(start)) continue;
      rest.remove_prefix(start.size());
      experts_ = 1 + std::count(rest.begin(), rest.end(), ',');
      if (experts_ > kMostTraceExperts) {
        lines_.fail(1, fmt::format("has {} experts; at most {}", experts_, kMostTraceExperts));
      }
      for (std::int64_t e = 0; e < experts_; ++e) {
        const std::string_view name = next_field(rest);
        if (name != fmt::format("e{}", e)) complain(1, fmt::format("column e{} is named {}", e, in_quotes(name)));
      }
      diagnostics_.throw_if_any();
      return;
    }
    lines_.fail(1, fmt::format("{} is not the header iteration,layer,rank,e0,e1,...", in_quotes(*line)));
  }

  static std::string_view next_field(std::string_view& rest) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view field = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    return field;
  }

  std::optional<std::int64_t> whole(std::string_view field, std::string_view name, std::int64_t most) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error == std::errc() && end == field.data() + field.size() && value >= 0 && value <= most) return value;
    complain(lines_.line(),
             fmt::format("{} is {}; expected a whole number from 0 to {}", name, in_quotes(field), most));
    return std::nullopt;
  }

  void read_row(std::string_view line) {
    const auto fields = 1 + std::count(line.begin(), line.end(), ',');
    if (fields != experts_ + 3) {
      complain(lines_.line(), fmt::format("has {} fields; expected {}", fields, experts_ + 3));
      return;
    }
    if (static_cast<std::int64_t>(rows_.size()) >= kMostTraceRows ||
        static_cast<std::int64_t>(counts_.size()) + experts_ > kMostTraceCounts) {
      lines_.fail(lines_.line(), fmt::format("has more than {} rows or {} counts", kMostTraceRows, kMostTraceCounts));
    }
    const auto iteration = whole(next_field(line), "iteration", kMostIterations);
    const auto layer = whole(next_field(line), "layer", kMostLayers - 1);
    const auto rank = whole(next_field(line), "rank", kMostRanks - 1);
    const std::size_t begin = counts_.size();
    counts_.resize(begin + static_cast<std::size_t>(experts_));
    const char* at = line.data();
    const char* end = line.data() + line.size();
    for (std::int64_t e = 0; e < experts_; ++e) {
      std::uint32_t value = 0;
      const auto [stop, error] = std::from_chars(at, end, value);
      const char* comma = std::find(stop, end, ',');
      if (error != std::errc() || stop != comma) {
        const char* field_end = std::find(at, end, ',');
        complain(lines_.line(), fmt::format("e{} is {}; expected a whole number from 0 to {}", e,
                                            in_quotes({at, static_cast<std::size_t>(field_end - at)}), UINT32_MAX));
        comma = field_end;
      }
      counts_[begin + static_cast<std::size_t>(e)] = value;
      at = comma == end ? end : comma + 1;
    }
    if (!iteration || !layer || !rank) return;
    layers_ = std::max(layers_, *layer + 1);
    ranks_ = std::max(ranks_, *rank + 1);
    rows_.push_back({*iteration, static_cast<std::int32_t>(*layer), static_cast<std::int32_t>(*rank), lines_.line(),
                     static_cast<std::uint32_t>(rows_.size())});
  }

  void order() {
    const auto before = [](const Row& a, const Row& b) { return a.key() < b.key(); };
    if (!std::is_sorted(rows_.begin(), rows_.end(), before)) std::stable_sort(rows_.begin(), rows_.end(), before);
    for (std::size_t i = 1; i < rows_.size(); ++i) {
      if (rows_[i].key() != rows_[i - 1].key()) continue;
      complain(rows_[i].line, fmt::format("iteration {} layer {} rank {} is given twice; first on line {}",
                                          rows_[i].iteration, rows_[i].layer, rows_[i].rank, rows_[i - 1].line));
    }
    diagnostics_.throw_if_any();
  }

  /// Reports missing rows: the rows are sorted and distinct, and are compared with the expected sequence.
  void check_complete() {
    std::int64_t layer = 0, rank = 0;
    for (std::size_t i = 0; i < rows_.size();) {
      const std::int64_t iteration = layer == 0 && rank == 0 ? rows_[i].iteration : iterations_.back();
      if (layer == 0 && rank == 0) iterations_.push_back(iteration);
      if (rows_[i].key() == std::tuple(iteration, layer, rank)) {
        ++i;
      } else {
        complain(0, fmt::format("iteration {} has no row of layer {} rank {}", iteration, layer, rank));
      }
      rank = (rank + 1) % ranks_;
      if (rank == 0) layer = (layer + 1) % layers_;
    }
    if (layer != 0 || rank != 0) {
      complain(0, fmt::format("iteration {} has no row of layer {} rank {}", iterations_.back(), layer, rank));
    }
    diagnostics_.throw_if_any();
  }

  RoutingTrace assembled() {
    const bool in_order =
        std::is_sorted(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.position < b.position; });
    if (!in_order) {
      std::vector<std::uint32_t> ordered;
      ordered.reserve(counts_.size());
      for (const Row& row : rows_) {
        const auto first = counts_.begin() + static_cast<std::ptrdiff_t>(row.position) * experts_;
        ordered.insert(ordered.end(), first, first + experts_);
      }
      counts_ = std::move(ordered);
    }
    counts_.shrink_to_fit();
    return {std::move(iterations_), layers_, ranks_, experts_, std::move(counts_)};
  }

  LineReader lines_;
  Diagnostics diagnostics_;
  std::int64_t layers_ = 0, ranks_ = 0, experts_ = 0;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::int64_t> iterations_;
};

}  // namespace

RoutingTrace read_routing_trace(const std::filesystem::path& path) { return TraceReader(path).read(); }

std::string to_csv(const RoutingTrace& trace) {
  fmt::memory_buffer out;
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "iteration,layer,rank");
  for (std::int64_t e = 0; e < trace.experts(); ++e) fmt::format_to(end, ",e{}", e);
  out.push_back('\n');
  for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
    for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
      for (std::int32_t rank = 0; rank < trace.sources(); ++rank) {
        fmt::format_to(end, "{},{},{}", trace.iterations()[i], layer, rank);
        for (const std::uint32_t count : trace.row(i, layer, RankId(rank))) {
          const fmt::format_int text(count);
          out.push_back(',');
          out.append(text.data(), text.data() + text.size());
        }
        out.push_back('\n');
      }
    }
  }
  return fmt::to_string(out);
}

void write_routing_trace(const std::filesystem::path& path, const RoutingTrace& trace) {
  const std::string text = to_csv(trace);
  write_file_atomically(path, path.extension() == ".gz" ? gzipped(text) : text);
}

}  // namespace moeplan
