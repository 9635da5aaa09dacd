#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/base/diagnostics.hpp"
#include "profiler/tables/node_topology.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

/// Without the escape sequences with which a terminal underlines the header.
std::string plain_text(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_numbered(std::string_view word, std::string_view name) {
  return word.starts_with(name) && word.size() > name.size() && whole_number(word.substr(name.size()));
}

/// Sets that are united pair by pair.
class Parts {
 public:
  explicit Parts(std::size_t count) : of_(count) { std::iota(of_.begin(), of_.end(), std::size_t{0}); }
  void unite(std::size_t a, std::size_t b) { std::replace(of_.begin(), of_.end(), of_[b], of_[a]); }
  [[nodiscard]] std::int64_t count() const { return std::ssize(std::set(of_.begin(), of_.end())); }
  [[nodiscard]] std::int64_t largest() const {
    std::int64_t most = 0;
    for (const std::size_t p : of_) most = std::max<std::int64_t>(most, std::count(of_.begin(), of_.end(), p));
    return most;
  }

 private:
  std::vector<std::size_t> of_;
};

struct Matrix {
  std::size_t gpus = 0, nics = 0;
  std::vector<std::vector<std::string>> cells;  // rows of GPUs, columns of GPUs
};

class MatrixReader {
 public:
  MatrixReader(const std::string& text, std::string file) : text_(plain_text(text)), file_(std::move(file)) {}

  Matrix read() {
    Matrix m;
    int line = 0;
    for (const std::string_view row : split(text_, '\n')) {
      ++line;
      const std::vector<std::string_view> in = words(row);
      if (in.empty()) continue;
      if (m.gpus == 0) {
        if (is_numbered(in.front(), "GPU")) header(in, m, line);
      } else if (is_numbered(in.front(), "GPU") && m.cells.size() < m.gpus) {
        gpu_row(in, m, line);
      }
    }
    if (m.gpus == 0) fail(1, "", "is no matrix of nvidia-smi topo -m: expected a line that begins with GPU0");
    if (m.cells.size() != m.gpus)
      fail(line, "", fmt::format("ends after {} rows of GPUs; expected {}", m.cells.size(), m.gpus));
    for (std::size_t a = 0; a < m.gpus; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (m.cells[a][b] != m.cells[b][a])
          fail(1, fmt::format("GPU{}.GPU{}", a, b),
               fmt::format("is {} there and {} back; expected the same", m.cells[a][b], m.cells[b][a]));
      }
    }
    return m;
  }

 private:
  [[noreturn]] void fail(int line, std::string path, std::string message) const {
    throw InputError(Diagnostic{{file_, line, 1}, std::move(path), std::move(message)});
  }

  static void header(const std::vector<std::string_view>& in, Matrix& m, int) {
    for (const std::string_view word : in) {
      if (is_numbered(word, "GPU")) ++m.gpus;
      if (is_numbered(word, "NIC") || is_numbered(word, "mlx5_") || is_numbered(word, "mlx5_bond_")) ++m.nics;
      if (word == "CPU") return;  // "GPU NUMA ID" follows
    }
  }

  void gpu_row(const std::vector<std::string_view>& in, Matrix& m, int line) const {
    const std::string name = fmt::format("GPU{}", m.cells.size());
    if (in.front() != name) fail(line, std::string(in.front()), fmt::format("expected the row of {}", name));
    if (in.size() < 1 + m.gpus)
      fail(line, name, fmt::format("has {} cells; expected one for each of {} GPUs", in.size() - 1, m.gpus));
    std::vector<std::string> row;
    for (std::size_t i = 0; i < m.gpus; ++i) {
      const std::string cell(in[i + 1]);
      static const std::set<std::string> kKnown{"X", "SYS", "NODE", "PHB", "PXB", "PIX"};
      if (!kKnown.contains(cell) && !is_numbered(cell, "NV")) {
        fail(line, fmt::format("{}.GPU{}", name, i),
             fmt::format("{} is no connection; expected X, SYS, NODE, PHB, PXB, PIX or NV and a number",
                         in_quotes(cell)));
      }
      if ((cell == "X") != (i == m.cells.size()))
        fail(line, fmt::format("{}.GPU{}", name, i), "expected X on the diagonal, and only there");
      row.push_back(cell);
    }
    m.cells.push_back(std::move(row));
  }

  std::string text_, file_;
};

}  // namespace

NodeTopology read_nvidia_smi_topology(const std::string& text, const std::string& file) {
  const Matrix m = MatrixReader(text, file).read();
  NodeTopology out;
  out.gpus = static_cast<std::int64_t>(m.gpus);
  out.nics = static_cast<std::int64_t>(m.nics);
  Parts switches(m.gpus), bridges(m.gpus);
  std::int64_t most = 0;
  for (std::size_t a = 0; a < m.gpus; ++a) {
    std::int64_t links = 0;
    for (std::size_t b = 0; b < m.gpus; ++b) {
      const std::string& cell = m.cells[a][b];
      if (a != b && cell != "SYS") bridges.unite(a, b);
      if (cell == "PIX" || cell == "PXB") switches.unite(a, b);
      if (!cell.starts_with("NV")) continue;
      const std::int64_t count = *whole_number(std::string_view(cell).substr(2));
      links += count;
      if (a < b) out.direct.push_back({static_cast<std::int64_t>(a), static_cast<std::int64_t>(b), count});
    }
    most = std::max(most, links);
  }
  if (most > kMostNvLinks) {
    out.switch_links = std::max_element(out.direct.begin(), out.direct.end(), [](const NvLinks& x, const NvLinks& y) {
                         return x.count < y.count;
                       })->count;
    out.direct.clear();
  }
  out.bridges = bridges.count();
  out.gpus_per_switch = switches.largest() > 1 ? switches.largest() : 0;
  out.switches_per_bridge =
      out.gpus_per_switch > 0 ? (bridges.largest() + out.gpus_per_switch - 1) / out.gpus_per_switch : bridges.largest();
  return out;
}

}  // namespace moeplan::profiler
