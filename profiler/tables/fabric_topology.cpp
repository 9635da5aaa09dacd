#include "profiler/tables/fabric_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "model/base/diagnostics.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

/// Gb/s of a lane, by InfiniBand's names of speeds (rounded as the names of links are: 4xNDR is 400 Gb/s).
constexpr std::array<std::pair<std::string_view, double>, 7> kLaneRates{
    {{"SDR", 2.5}, {"DDR", 5}, {"QDR", 10}, {"FDR", 14}, {"EDR", 25}, {"HDR", 50}, {"NDR", 100}}};

/// The rate of "4xHDR"; XDR has 200 Gb/s a lane. None if it is none.
std::optional<BytesPerSecond> link_rate(std::string_view word) {
  const std::size_t x = word.find('x');
  if (x == std::string_view::npos) return std::nullopt;
  const auto lanes = whole_number(word.substr(0, x));
  if (!lanes || *lanes < 1 || *lanes > 16) return std::nullopt;
  const std::string_view name = word.substr(x + 1);
  if (name == "XDR") return BytesPerSecond(static_cast<double>(*lanes) * 200 * 1.25e8);
  for (const auto& [known, rate] : kLaneRates) {
    if (name == known) return BytesPerSecond(static_cast<double>(*lanes) * rate * 1.25e8);
  }
  return std::nullopt;
}

/// The text between the n-th pair of quotes; none if there are fewer.
std::optional<std::string> quoted(std::string_view line, int n) {
  std::size_t at = 0;
  for (int i = 0;; ++i) {
    const std::size_t begin = line.find('"', at);
    const std::size_t end = begin == std::string_view::npos ? begin : line.find('"', begin + 1);
    if (end == std::string_view::npos) return std::nullopt;
    if (i == n) return std::string(line.substr(begin + 1, end - begin - 1));
    at = end + 1;
  }
}

struct SwitchPorts {
  std::map<std::string, double> hosts;  // bandwidth to each host
  double up = 0;                        // to other switches
};

/// A port of a host: its switch and rate.
struct HostPort {
  std::string on;
  double rate;
};

class IbNetDiscover {
 public:
  IbNetDiscover(const std::string& text, std::string file) : file_(std::move(file)) {
    int line = 0;
    for (const std::string_view row : split(text, '\n')) read_line(trimmed(row), ++line);
    if (switches_.empty()) fail(1, "", "is no output of ibnetdiscover: expected lines that begin with Switch");
    if (hosts_.empty()) fail(1, "", "has no channel adapter: expected ports of switches that lead to \"H-...\"");
  }

  FabricTopology result() {
    FabricTopology out;
    out.nodes = std::ssize(hosts_);
    out.switches = std::ssize(switches_);
    std::map<std::int64_t, std::int64_t> nics;
    std::map<double, std::int64_t> rates;
    std::int64_t on_own_switches = 0;
    for (const auto& [host, ports] : hosts_) {
      ++nics[std::ssize(ports)];
      std::set<std::string> on;
      for (const HostPort& p : ports) {
        ++rates[p.rate];
        on.insert(p.on);
      }
      if (std::ssize(on) == std::ssize(ports)) ++on_own_switches;
    }
    const auto most_frequent = [](const auto& counts) {
      return std::max_element(counts.begin(), counts.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; })
          ->first;
    };
    out.nics_per_node = most_frequent(nics);
    out.nic_bandwidth = BytesPerSecond(most_frequent(rates));
    out.has_rails = out.nics_per_node > 1 && 2 * on_own_switches > out.nodes;
    for (const auto& [count, hosts] : nics) {
      if (count != out.nics_per_node)
        out.left_out.push_back(
            fmt::format("{} hosts with {} ports, since most have {}", hosts, count, out.nics_per_node));
    }
    for (const auto& [rate, ports] : rates) {
      if (rate != out.nic_bandwidth.value())
        out.left_out.push_back(fmt::format("{} ports of {:.4g} Gb/s, since most have {:.4g}", ports, rate / 1.25e8,
                                           out.nic_bandwidth.value() / 1.25e8));
    }
    for (const auto& [name, ports] : switches_) {
      if (ports.hosts.empty()) continue;
      ++out.leaves;
      out.nodes_per_leaf = std::max<std::int64_t>(out.nodes_per_leaf, std::ssize(ports.hosts));
      double down = 0;
      for (const auto& [host, rate] : ports.hosts) down += rate;
      if (ports.up > 0) out.oversubscription = std::max(out.oversubscription, down / ports.up);
    }
    return out;
  }

 private:
  [[noreturn]] void fail(int line, std::string path, std::string message) const {
    throw InputError(Diagnostic{{file_, line, 1}, std::move(path), std::move(message)});
  }

  void read_line(std::string_view line, int number) {
    if (line.starts_with("Switch")) {
      const auto id = quoted(line, 0);
      if (!id) fail(number, "Switch", "expected the switch's id in quotes");
      current_ = *id;
      switches_[*id];
    } else if (line.starts_with("Ca") || line.starts_with("Rt")) {
      current_.clear();  // the same cables, seen from the other end
    } else if (line.starts_with("[") && !current_.empty()) {
      port(line, number);
    }
  }

  /// [1]  "H-0c42a103006c1d5a"[1](c42a103006c1d5a)  # "node01 HCA-1" lid 12 4xHDR
  void port(std::string_view line, int number) {
    const auto other = quoted(line, 0);
    if (!other) fail(number, current_, "expected the id at the other end in quotes");
    const std::vector<std::string_view> in = words(line);
    const auto rate = link_rate(in.back());
    if (!rate)
      fail(number, current_, fmt::format("{} is no rate of a link; expected e.g. 4xHDR", in_quotes(in.back())));
    if (other->starts_with("S-")) {
      switches_[current_].up += rate->value();
      return;
    }
    if (!other->starts_with("H-")) return;  // a router
    const auto description = quoted(line, 1);
    const auto name = description ? words(*description) : std::vector<std::string_view>{};
    if (name.empty()) fail(number, current_, "expected the adapter's description in quotes after #");
    if (name.front() == "Mellanox" || description->find("Aggregation") != std::string::npos) return;  // of a switch
    const std::string host(name.front());
    switches_[current_].hosts[host] += rate->value();
    hosts_[host].push_back({current_, rate->value()});
  }

  std::string file_, current_;
  std::map<std::string, SwitchPorts> switches_;
  std::map<std::string, std::vector<HostPort>> hosts_;
};

}  // namespace

FabricTopology read_ibnetdiscover(const std::string& text, const std::string& file) {
  return IbNetDiscover(text, file).result();
}

}  // namespace moeplan::profiler
