#include "sim/traffic/traffic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include "model/text/line_reader.hpp"

namespace moeplan::sim {

namespace {

constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;  // ten times the largest clusters
constexpr std::size_t kMostFlows = std::size_t{1} << 27;    // 2 GiB of them
constexpr double kMostBytes = 1e18;  // an exabyte: whole numbers of bytes still add up in a double

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : lines_(path) {}

  std::variant<TrafficFile, ColumnFile> read() {
    auto line = lines_.next();
    if (line == "dst,bytes") {
      ColumnFile columns = read_columns();
      diagnostics_.throw_if_any();
      return columns;
    }
    if (line == "src,dst,bytes" || line == "src,dst,bytes,finish_s") {
      read_csv(line == "src,dst,bytes,finish_s");
    } else {
      while (line && is_skipped(*line)) line = lines_.next();
      if (!line) lines_.fail(0, "is empty; expected a traffic CSV (src,dst,bytes or dst,bytes) or a matrix of bytes");
      const char first = line->front();
      if (first != ' ' && first != '\t' && (first < '0' || first > '9')) {
        lines_.fail(lines_.line(),
                    fmt::format("{} is neither the header src,dst,bytes[,finish_s] or dst,bytes nor a row of numbers",
                                in_quotes(*line)));
      }
      read_matrix(*line);
    }
    diagnostics_.throw_if_any();
    return std::move(result_);
  }

 private:
  static bool is_skipped(std::string_view line) {
    const std::size_t start = line.find_first_not_of(" \t");
    return start == std::string_view::npos || line[start] == '#';
  }

  void complain(int line, std::string message) {
    diagnostics_.add({lines_.file(), line, 0}, "", std::move(message));
    if (diagnostics_.list().size() >= kMostErrors) diagnostics_.throw_if_any();
  }

  std::optional<RankId> rank(std::string_view text, std::string_view name) {
    const auto value = number<std::int64_t>(text);
    if (value && *value >= 0 && *value < kMostRanks) {
      result_.matrix.ranks = std::max(result_.matrix.ranks, *value + 1);
      return RankId(static_cast<std::int32_t>(*value));
    }
    complain(lines_.line(),
             fmt::format("{} is {}; expected a rank from 0 to {}", name, in_quotes(text), kMostRanks - 1));
    return std::nullopt;
  }

  std::optional<double> amount(std::string_view text, std::string_view name, double most) {
    const auto value = number<double>(text);
    if (value && *value >= 0 && *value <= most) return value;
    complain(lines_.line(), fmt::format("{} is {}; expected a number from 0 to {:g}", name, in_quotes(text), most));
    return std::nullopt;
  }

  void add(RankId src, RankId dst, double bytes) {
    if (result_.matrix.flows.size() == kMostFlows) {
      lines_.fail(lines_.line(), fmt::format("has more than {} flows", kMostFlows));
    }
    result_.matrix.flows.push_back({src, dst, bytes});
  }

  void read_csv(bool has_finish) {
    const std::size_t columns = has_finish ? 4 : 3;
    while (const auto line = lines_.next()) {
      std::array<std::string_view, 4> fields;
      std::size_t count = 0;
      std::size_t begin = 0;
      while (begin <= line->size()) {
        const std::size_t end = std::min(line->find(',', begin), line->size());
        if (count < fields.size()) fields[count] = line->substr(begin, end - begin);
        ++count;
        begin = end + 1;
      }
      if (count != columns) {
        complain(lines_.line(), fmt::format("{} has {} fields; expected {}", in_quotes(*line), count, columns));
        continue;
      }
      const auto src = rank(fields[0], "src");
      const auto dst = rank(fields[1], "dst");
      const auto bytes = amount(fields[2], "bytes", kMostBytes);
      const auto finish = has_finish ? amount(fields[3], "finish_s", 1e12) : std::optional(0.0);
      if (!src || !dst || !bytes || !finish) continue;
      add(*src, *dst, *bytes);
      if (has_finish) result_.finish_s.push_back(*finish);
    }
    if (diagnostics_.empty()) refuse_pairs_given_twice();
  }

  ColumnFile read_columns() {
    ColumnFile columns;
    std::vector<int> given;  // by destination: the line that lists it, or 0
    while (const auto line = lines_.next()) {
      const std::size_t comma = line->find(',');
      if (comma == std::string_view::npos || line->find(',', comma + 1) != std::string_view::npos) {
        complain(lines_.line(), fmt::format("{} is not dst,bytes", in_quotes(*line)));
        continue;
      }
      const auto dst = rank(line->substr(0, comma), "dst");
      const auto bytes = amount(line->substr(comma + 1), "bytes", kMostBytes);
      if (!dst || !bytes) continue;
      if (dst->index() >= given.size()) {
        given.resize(dst->index() + 1, 0);
        columns.bytes.resize(dst->index() + 1, 0);
      }
      if (given[dst->index()] > 0) {
        complain(lines_.line(),
                 fmt::format("dst {} is given twice; first on line {}", dst->value(), given[dst->index()]));
      }
      given[dst->index()] = lines_.line();
      columns.bytes[dst->index()] = *bytes;
    }
    return columns;
  }

  void refuse_pairs_given_twice() {
    const auto& flows = result_.matrix.flows;
    const auto key = [&](std::size_t i) { return std::pair(flows[i].src, flows[i].dst); };
    std::vector<std::size_t> order(flows.size());
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](std::size_t a, std::size_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; };
    if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (key(order[i]) != key(order[i - 1])) continue;
      const TrafficFlow& f = flows[order[i]];
      // Every line after the header is a flow.
      complain(static_cast<int>(order[i]) + 2, fmt::format("{} -> {} is given twice; first on line {}", f.src.value(),
                                                           f.dst.value(), order[i - 1] + 2));
    }
  }

  void read_matrix(std::string_view first_row) {
    std::int64_t rows = 0;
    std::optional<std::string_view> line = first_row;
    for (; line; line = lines_.next()) {
      if (is_skipped(*line)) continue;
      read_row(*line, rows++);
    }
    if (rows != result_.matrix.ranks) {
      complain(0, fmt::format("has {} rows of {} numbers; expected a square matrix", rows, result_.matrix.ranks));
    }
  }

  void read_row(std::string_view line, std::int64_t row) {
    constexpr std::string_view kBlank = " \t";
    std::int64_t column = 0;
    std::size_t begin = line.find_first_not_of(kBlank);
    while (begin < line.size()) {
      const std::size_t end = std::min(line.find_first_of(" \t,", begin), line.size());
      const auto bytes = amount(line.substr(begin, end - begin), "an entry", kMostBytes);
      if (bytes && *bytes > 0 && column != row && column < kMostRanks && row < kMostRanks) {
        add(RankId(static_cast<std::int32_t>(row)), RankId(static_cast<std::int32_t>(column)), *bytes);
      }
      ++column;
      begin = std::min(line.find_first_not_of(kBlank, end), line.size());
      if (begin < line.size() && line[begin] == ',') {
        begin = std::min(line.find_first_not_of(kBlank, begin + 1), line.size());
      }
    }
    if (row == 0) result_.matrix.ranks = column;
    if (column != result_.matrix.ranks) {
      complain(lines_.line(), fmt::format("has {} numbers; the first row has {}", column, result_.matrix.ranks));
    }
  }

  LineReader lines_;
  TrafficFile result_{{0, {}}, {}};
  Diagnostics diagnostics_;
};

}  // namespace

std::variant<TrafficFile, ColumnFile> read_traffic_or_columns(const std::filesystem::path& path) {
  return Reader(path).read();
}

TrafficFile read_traffic(const std::filesystem::path& path) {
  auto file = read_traffic_or_columns(path);
  if (auto* traffic = std::get_if<TrafficFile>(&file)) return std::move(*traffic);
  throw InputError(Diagnostic{{path.string(), 1, 0}, "", "is traffic by column; expected src,dst,bytes"});
}

}  // namespace moeplan::sim
