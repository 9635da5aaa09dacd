#include "profiler/tables/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "model/text/document.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

/// A name that the executable or files of a test have had, and its collective; none if no plan uses it.
struct TestName {
  std::string_view name;
  std::optional<Collective> collective;
};
constexpr std::array<TestName, 13> kTests{{{"alltoall", Collective::AllToAll},
                                           {"all_to_all", Collective::AllToAll},
                                           {"all_gather", Collective::AllGather},
                                           {"allgather", Collective::AllGather},
                                           {"reduce_scatter", Collective::ReduceScatter},
                                           {"all_reduce", Collective::AllReduce},
                                           {"allreduce", Collective::AllReduce},
                                           {"broadcast", Collective::Broadcast},
                                           {"sendrecv", Collective::SendReceive},
                                           {"hypercube", std::nullopt},
                                           {"scatter", std::nullopt},
                                           {"gather", std::nullopt},
                                           {"reduce", std::nullopt}}};
constexpr std::array<std::string_view, 16> kTypes{
    "int8",   "uint8",    "int32",  "uint32", "int64",    "uint64",   "half",        "float",
    "double", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "float8_e4m3", "float8_e5m2"};
constexpr std::array<std::string_view, 8> kReductions{"sum", "prod", "max", "min", "avg", "all", "mulsum", "none"};

template <std::size_t N>
bool is_one_of(std::string_view token, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), token) != names.end();
}

/// The test whose name precedes `_perf`.
const TestName* test_of_command(std::string_view line) {
  const std::size_t end = line.find("_perf");
  if (end == std::string_view::npos) return nullptr;
  std::size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) || line[begin - 1] == '_')) --begin;
  const std::string_view name = line.substr(begin, end - begin);
  for (const TestName& t : kTests) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

/// The test after which a file is named: the longest name that it contains ("all_reduce" is not "reduce").
const TestName* test_of_file(std::string_view path) {
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  const TestName* found = nullptr;
  for (const TestName& t : kTests) {
    if (file.find(t.name) != std::string_view::npos && (!found || t.name.size() > found->name.size())) found = &t;
  }
  return found;
}

/// The integer at the end of a token, which may have a prefix from a launcher ("[1,0]<stdout>:1048576").
std::optional<std::int64_t> number_at_end(std::string_view token) {
  std::size_t begin = token.size();
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(token[begin - 1]))) --begin;
  if (begin > 0 && std::isalnum(static_cast<unsigned char>(token[begin - 1]))) return std::nullopt;
  return whole_number(token.substr(begin));
}

/// A number printed in a table, and its largest rounding error: half a unit in the last digit.
struct Printed {
  double value;
  double half_digit;

  static std::optional<Printed> of(std::string_view text) {
    const auto value = decimal_number(text);
    if (!value) return std::nullopt;
    const std::size_t e = std::min(text.find('e'), text.size());
    const std::size_t point = std::min(text.find('.'), e);
    const double decimals = point < e ? static_cast<double>(e - point - 1) : 0;
    const double exponent =
        e < text.size() ? decimal_number(text.substr(e + (text[e + 1] == '+' ? 2 : 1))).value_or(0) : 0;
    return Printed{*value, 0.5 * std::pow(10, exponent - decimals)};
  }
};

/// The columns after the type, from a table's header.
struct Columns {
  std::optional<bool> has_root;  // none: no header was seen
  std::size_t in_half = 4;       // columns per half: time, algbw, busbw, #wrong
  double time_unit = 1e-6;
};

/// The collective and group shape of the current table.
struct Table {
  Collective collective;
  GroupShape shape;
};

class LogReader {
 public:
  explicit LogReader(std::string name) : name_(std::move(name)), file_test_(test_of_file(name_)) {}

  CollectiveSamples read(std::string_view text) {
    for (const std::string_view line : split(text, '\n')) {
      ++line_;
      if (!wrong_.is_full()) read_line(line);
    }
    if (!has_rows_)
      wrong_.add({name_}, "", "holds no table of nccl-tests; expected the lines that all_reduce_perf prints");
    wrong_.throw_if_any();
    if (zero_sizes_ > 0) {
      out_.notes.push_back({{name_}, "", fmt::format("{} rows of sizes rounded to 0 are left out", zero_sizes_)});
    }
    return std::move(out_);
  }

 private:
  using Words = std::vector<std::string_view>;

  void read_line(std::string_view line) {
    if (const TestName* test = test_of_command(line)) {
      if (test != test_) is_open_ = false;
      test_ = test;
    }
    const Words tokens = words(line);
    if (!is_device(tokens) && !is_communicator(tokens) && !is_header(tokens)) read_row(tokens);
  }

  /// Reads `#  Rank  0 Group  0 Pid 440010 on HOST device  0 [..] NAME`, with or without Group. The first such line
  /// after a table clears the ranks of that table.
  bool is_device(const Words& tokens) {
    const auto rank = std::find(tokens.begin(), tokens.end(), "Rank");
    const auto on = std::find(rank, tokens.end(), "on");
    if (tokens.end() - on < 4 || *(on + 2) != "device") return false;
    const auto number = whole_number(*(rank + 1));
    if (!number) return false;
    if (is_open_) {
      hosts_.clear();
      groups_.clear();
      is_open_ = false;
    }
    if (const auto group = std::find(rank, on, "Group"); on - group > 1) groups_.emplace(*(group + 1));
    hosts_[*number] = *(on + 1);
    out_.hosts.emplace(*(on + 1));
    device_.clear();
    for (auto word = on + 4; word != tokens.end(); ++word) {
      if (word->front() == '[' || word->back() == ']') continue;
      device_ += (device_.empty() ? "" : " ") + std::string(*word);
    }
    return true;
  }

  /// Reads the NCCL_DEBUG=INFO line `comm 0x.. rank 0 nRanks 16 nNodes 2 localRanks 8 ..`, for logs without device
  /// lines.
  bool is_communicator(const Words& tokens) {
    const auto number_after = [&](std::string_view name) -> std::int64_t {
      const auto it = std::find(tokens.begin(), tokens.end(), name);
      if (tokens.end() - it < 2) return 0;
      return whole_number(*(it + 1)).value_or(0);
    };
    const std::int64_t ranks = number_after("nRanks"), nodes = number_after("nNodes");
    if (ranks < 1 || nodes < 1) return false;
    communicator_ = {ranks, nodes};
    return true;
  }

  /// Reads the two header lines: the column names `size count type redop root time algbw busbw #wrong ...` and the
  /// units.
  bool is_header(const Words& tokens) {
    const auto has = [&](std::string_view t) { return std::find(tokens.begin(), tokens.end(), t) != tokens.end(); };
    if (has("size") && has("count") && has("type") && has("time")) {
      const auto first = std::find(tokens.begin(), tokens.end(), "time");
      const auto second = std::find(first + 1, tokens.end(), "time");
      columns_ = {.has_root = has("root"), .in_half = static_cast<std::size_t>(second - first)};
      is_open_ = false;
      return true;
    }
    for (const auto& [unit, seconds] : {std::pair("(us)", 1e-6), std::pair("(ms)", 1e-3), std::pair("(ns)", 1e-9)}) {
      if (!has("(B)") || !has(unit)) continue;
      columns_.time_unit = seconds;
      return true;
    }
    return false;
  }

  /// Reads SIZE COUNT TYPE [REDOP] [ROOT] (TIME ALGBW BUSBW WRONG) x 2, after an optional prefix from a launcher.
  void read_row(const Words& tokens) {
    std::size_t type = 2;
    while (type < tokens.size() && !is_one_of(tokens[type], kTypes)) ++type;
    if (type >= tokens.size()) return;
    const auto size = number_at_end(tokens[type - 2]), count = whole_number(tokens[type - 1]);
    if (!size || !count) return;
    has_rows_ = true;
    if (!is_open_) {
      is_open_ = true;
      table_ = opened();
    }
    if (!table_) return;
    if (*size == 0) {
      ++zero_sizes_;
      return;
    }
    std::size_t next = type + 1;
    if (next < tokens.size() && is_one_of(tokens[next], kReductions)) ++next;
    const std::size_t in_half = columns_.in_half;
    if (columns_.has_root.value_or((tokens.size() - next) % in_half == 1)) ++next;
    for (const bool in_place : {false, true}) {
      if (next + in_half > tokens.size()) {
        if (in_place && next == tokens.size()) return;  // the table has one half only
        return note("is cut short or mixed up with other output; what is whole of it is used");
      }
      add(*size, tokens[type], std::span(tokens).subspan(next, in_half), in_place);
      next += in_half;
    }
  }

  /// The table that begins at the current row; none, with an error or note, if it cannot be read or is skipped.
  std::optional<Table> opened() {
    const TestName* test = test_ ? test_ : file_test_;
    if (!test) {
      refuse("begins a table of an unnamed test; name the file after it, e.g. alltoall.log");
      return std::nullopt;
    }
    if (!test->collective) {
      note(fmt::format("begins a table of {}, which no plan uses; it is left out", test->name));
      return std::nullopt;
    }
    if (groups_.size() > 1) {
      note("begins a table of several groups at once; it is left out");
      return std::nullopt;
    }
    const auto shape = shape_of_ranks();
    if (!shape) return std::nullopt;
    if (!is_even(*shape)) {
      note(fmt::format("begins a table of {} ranks on {} nodes, not the same number on each; it is left out",
                       shape->ranks, shape->nodes));
      return std::nullopt;
    }
    if (shape->ranks == 1) {
      note("begins a table of one rank; it is left out");
      return std::nullopt;
    }
    return Table{*test->collective, *shape};
  }

  std::optional<GroupShape> shape_of_ranks() {
    if (hosts_.empty()) {
      if (communicator_) return communicator_;
      refuse("begins a table without the lines \"# Rank 0 ... on HOST device 0\": of how many ranks?");
      return std::nullopt;
    }
    const std::int64_t ranks = hosts_.rbegin()->first + 1;
    if (std::ssize(hosts_) != ranks) {
      refuse(fmt::format("begins a table of {} ranks, of which only {} are listed", ranks, hosts_.size()));
      return std::nullopt;
    }
    std::set<std::string> nodes;
    for (const auto& [rank, host] : hosts_) nodes.insert(host);
    return GroupShape{ranks, std::ssize(nodes)};
  }

  /// Whether every host has the same number of ranks.
  [[nodiscard]] bool is_even(const GroupShape& shape) const {
    if (shape.ranks % shape.nodes != 0) return false;
    std::map<std::string, std::int64_t> ranks_of;
    for (const auto& [rank, host] : hosts_) ++ranks_of[host];
    return std::all_of(ranks_of.begin(), ranks_of.end(),
                       [&](const auto& host) { return host.second == shape.ranks / shape.nodes; });
  }

  void add(std::int64_t size, std::string_view type, std::span<const std::string_view> half, bool in_place) {
    const auto printed = Printed::of(half[0]), rate = Printed::of(half[1]);
    if (!printed || !rate) return note("is cut short or mixed up with other output; it is left out");
    if (printed->value <= 0) return refuse(fmt::format("a time of {} for {} B is impossible", half[0], size));
    const auto bytes = static_cast<double>(size);
    double time = printed->value * columns_.time_unit;
    // Both numbers are rounded; another 0.1 % allows for conversions of the clock.
    const double implied = bytes / time * 1e-9;
    if (std::abs(implied - rate->value) > rate->half_digit + implied * (printed->half_digit / printed->value + 1e-3)) {
      return refuse(fmt::format("{} B in {} are {:.2f} GB/s, not the {} that the line says", size, human(Seconds(time)),
                                implied, half[1]));
    }
    // Times of ten seconds and more are printed as 1.0e+07: the bandwidth then determines the time more precisely.
    if (rate->value > 0 && rate->half_digit / rate->value < printed->half_digit / printed->value) {
      time = bytes / (rate->value * 1e9);
    }
    if (half.size() > 3 && half[3] != "N/A") {
      // Before 2.12, this column is the largest error of a reduction, far below 1.
      const auto wrong = decimal_number(half[3]);
      if (!wrong || *wrong < 0 || *wrong >= 1) return note(fmt::format("has wrong results ({}); left out", half[3]));
    }
    if (out_.samples.size() >= kMostSamples) {
      if (out_.samples.size() == kMostSamples) refuse(fmt::format("is beyond {} measurements", kMostSamples));
      return;
    }
    out_.samples.push_back({.collective = table_->collective,
                            .shape = table_->shape,
                            .n = Bytes(static_cast<double>(size)),
                            .time = Seconds(time),
                            .in_place = in_place,
                            .dtype = std::string(type),
                            .device = device_,
                            .where = {name_, line_}});
  }

  void refuse(std::string why) { wrong_.add({name_, line_}, "", std::move(why)); }
  void note(std::string what) {
    constexpr std::size_t kMostNotes = 20;
    if (out_.notes.size() < kMostNotes) out_.notes.push_back({{name_, line_}, "", std::move(what)});
  }

  std::string name_;
  const TestName* file_test_;
  const TestName* test_ = nullptr;
  int line_ = 0;
  std::map<std::int64_t, std::string> hosts_;  // by rank
  std::set<std::string> groups_;
  std::optional<GroupShape> communicator_;
  std::string device_;
  Columns columns_;
  bool is_open_ = false;  // a row of the current table has been read
  std::optional<Table> table_;
  bool has_rows_ = false;
  std::int64_t zero_sizes_ = 0;
  Diagnostics wrong_;
  CollectiveSamples out_;
};

}  // namespace

CollectiveSamples parse_nccl_tests(std::string_view text, const std::string& name) {
  return LogReader(name).read(text);
}

CollectiveSamples read_nccl_tests(const std::filesystem::path& path) {
  return parse_nccl_tests(read_text_file(path, kMostLogBytes), path.string());
}

}  // namespace moeplan::profiler
