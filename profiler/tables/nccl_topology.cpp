#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <charconv>
#include <map>
#include <sstream>

#include "model/base/diagnostics.hpp"
#include "model/text/source_text.hpp"
#include "profiler/tables/node_topology.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

using Tree = boost::property_tree::ptree;

/// GPUs of configs/gpus by NVIDIA's PCI device id (pci.ids).
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kDevices{{{"0x20b0", "a100_sxm_40gb"},
                                                                                  {"0x20b2", "a100_sxm_80gb"},
                                                                                  {"0x20b5", "a100_pcie"},
                                                                                  {"0x20f1", "a100_pcie"},
                                                                                  {"0x2324", "h800_sxm"},
                                                                                  {"0x2329", "h20_sxm"},
                                                                                  {"0x2330", "h100_sxm"},
                                                                                  {"0x2335", "h200_sxm"},
                                                                                  {"0x2901", "b200_sxm"},
                                                                                  {"0x2941", "gb200"},
                                                                                  {"0x1db5", "v100_sxm2"},
                                                                                  {"0x1db1", "v100_sxm2"}}};

std::string attribute(const Tree& element, const char* name) {
  return element.get<std::string>(std::string("<xmlattr>.") + name, "");
}

/// A GPU with the PCIe switch above it, "" if there is none, and its host bridge.
struct FoundGpu {
  std::string bus, pcie_switch;
  std::size_t bridge;
};

class TopologyFile {
 public:
  TopologyFile(const std::string& text, std::string file) : text_(text), file_(std::move(file)) {}

  NodeTopology read() {
    const Tree document = parsed();
    const auto system = document.get_child_optional("system");
    if (!system) fail(1, "", "is no topology file of NCCL: expected the element <system>");
    for (const auto& [name, child] : *system) {
      if (name == "cpu") cpu(child);
    }
    if (gpus_.empty()) fail(1, "system", "has no GPU: expected <pci> elements of class 0x0302 or with a <gpu>");
    out_.gpus = std::ssize(gpus_);
    pcie();
    nvlinks();
    nics();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(int line, std::string path, std::string message) const {
    throw InputError(Diagnostic{{file_, line, 1}, std::move(path), std::move(message)});
  }
  /// The line of the first place where the text stands.
  [[nodiscard]] int line_of(const std::string& part) const {
    const std::size_t at = text_.find(part);
    return at == std::string::npos ? 1 : location_at(text_, at, file_).line;
  }

  [[nodiscard]] int line_of_device(const std::string& bus) const { return line_of("busid=\"" + bus + '"'); }

  [[nodiscard]] Tree parsed() const {
    std::istringstream stream(text_);
    Tree tree;
    try {
      boost::property_tree::read_xml(stream, tree);
    } catch (const boost::property_tree::xml_parser_error& e) {
      fail(std::max(1, static_cast<int>(e.line())), "", fmt::format("is not valid XML: {}", e.message()));
    }
    return tree;
  }

  void cpu(const Tree& element) {
    const std::size_t bridge = bridges_++;
    for (const auto& [name, child] : element) {
      if (name == "pci") pci(child, "", bridge);
      if (name == "nic") nic(child);
    }
  }

  void pci(const Tree& element, const std::string& above, std::size_t bridge) {
    const std::string bus = attribute(element, "busid"), device_class = attribute(element, "class");
    if (bus.empty()) fail(line_of("<pci"), "system.cpu.pci.busid", "missing attribute");
    if (device_class.empty())
      fail(line_of_device(bus), fmt::format("system.cpu.pci[{}].class", bus),
           "missing attribute; expected e.g. 0x030200");
    const bool is_gpu =
        device_class.starts_with("0x0302") || device_class.starts_with("0x0300") || element.count("gpu") > 0;
    if (is_gpu) gpu(element, bus, above, bridge);
    const bool has_nets = element.count("nic") > 0;
    if (device_class.starts_with("0x02") && !has_nets) ++controllers_;
    const std::string own = device_class.starts_with("0x0604") && above.empty() ? bus : above;
    for (const auto& [name, child] : element) {
      if (name == "pci") pci(child, own, bridge);
      if (name == "nic") nic(child);
    }
  }

  void gpu(const Tree& element, const std::string& bus, const std::string& above, std::size_t bridge) {
    gpus_.push_back({bus, above, bridge});
    const std::string device = attribute(element, "device");
    for (const auto& [id, name] : kDevices) {
      if (id == device) out_.gpu_kinds.emplace(name);
    }
    if (const auto rate = slot_rate(element, bus)) {
      out_.pcie_bandwidth = std::min(out_.pcie_bandwidth.value_or(*rate), *rate);
    }
    for (const auto& [name, child] : element) {
      if (name != "gpu") continue;
      for (const auto& [inner, link] : child) {
        if (inner != "nvlink") continue;
        const std::string target = attribute(link, "target"), count = attribute(link, "count");
        const auto number = whole_number(count);
        const std::string path = fmt::format("system.cpu.pci[{}].gpu.nvlink.count", bus);
        if (!number || *number < 1 || *number > kMostNvLinks)
          fail(line_of_device(bus), path,
               fmt::format("{} is out of range; expected 1 to {}", in_quotes(count), kMostNvLinks));
        if (attribute(link, "tclass").starts_with("0x0680")) {
          to_switch_[bus] += *number;
        } else {
          between_[{bus, target}] += *number;
        }
      }
    }
  }

  /// The rate of "32.0 GT/s PCIe" and a width: 8b/10b coding up to 5 GT/s, else 128b/130b. None if nothing is said.
  std::optional<BytesPerSecond> slot_rate(const Tree& element, const std::string& bus) const {
    const std::string speed = attribute(element, "link_speed"), width = attribute(element, "link_width");
    if (speed.empty() || width.empty() || width == "0") return std::nullopt;
    double transfers = 0;
    const auto [end, error] = std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
    const auto lanes = whole_number(width);
    if (error != std::errc() || transfers <= 0 || transfers > 1000 || !lanes || *lanes < 1 || *lanes > 32 ||
        std::string_view(end, speed.data() + speed.size()).find("GT/s") == std::string_view::npos) {
      fail(line_of_device(bus), fmt::format("system.cpu.pci[{}].link_speed", bus),
           fmt::format("{} with width {} is no rate; expected e.g. \"16 GT/s\" and 16", in_quotes(speed),
                       in_quotes(width)));
    }
    const double coding = transfers <= 5 ? 0.8 : 128.0 / 130;
    return BytesPerSecond(transfers * 1e9 * static_cast<double>(*lanes) * coding / 8);
  }

  void nic(const Tree& element) {
    for (const auto& [name, net] : element) {
      if (name != "net") continue;
      const std::string speed = attribute(net, "speed"), called = attribute(net, "name");
      const auto megabits = whole_number(speed);
      if (!megabits || *megabits < 1 || *megabits > 10'000'000) {
        fail(line_of(called.empty() ? "<net" : '"' + called + '"'), fmt::format("net[{}].speed", called),
             fmt::format("{} is no speed; expected Mbit/s", in_quotes(speed)));
      }
      ++speeds_[*megabits];
    }
  }

  void pcie() {
    std::map<std::string, std::int64_t> of_switch;
    std::map<std::size_t, std::set<std::string>> switches;
    std::map<std::size_t, std::int64_t> of_bridge;
    for (const FoundGpu& g : gpus_) {
      ++of_bridge[g.bridge];
      if (g.pcie_switch.empty()) continue;
      ++of_switch[g.pcie_switch];
      switches[g.bridge].insert(g.pcie_switch);
    }
    out_.bridges = std::ssize(of_bridge);
    const auto largest = [](const auto& map, auto size) {
      std::int64_t most = 0;
      for (const auto& [key, value] : map) most = std::max<std::int64_t>(most, size(value));
      return most;
    };
    out_.gpus_per_switch = largest(of_switch, [](std::int64_t n) { return n; });
    out_.switches_per_bridge = out_.gpus_per_switch > 0 ? largest(switches, [](const auto& s) { return std::ssize(s); })
                                                        : largest(of_bridge, [](std::int64_t n) { return n; });
  }

  void nvlinks() {
    for (const auto& [bus, links] : to_switch_) out_.switch_links = std::max(out_.switch_links, links);
    if (out_.switch_links > kMostNvLinks)
      fail(1, "nvlink", fmt::format("{} links of a GPU; expected at most {}", out_.switch_links, kMostNvLinks));
    std::int64_t unknown = 0;
    for (const auto& [ends, count] : between_) {
      const auto index = [&](const std::string& bus) {
        return std::find_if(gpus_.begin(), gpus_.end(), [&](const FoundGpu& g) { return g.bus == bus; }) -
               gpus_.begin();
      };
      const std::int64_t a = index(ends.first), b = index(ends.second);
      if (a == b || b == std::ssize(gpus_)) {
        ++unknown;
      } else if (a < b) {
        out_.direct.push_back({a, b, count});
      }
    }
    if (unknown > 0) {
      out_.left_out.push_back(fmt::format(
          "NVLinks of {} GPUs whose other end the file does not show: the GPUs are connected by PCIe alone", unknown));
    }
  }

  void nics() {
    if (speeds_.empty()) {
      out_.nics = controllers_;
      return;
    }
    const auto most = std::max_element(speeds_.begin(), speeds_.end(), [](const auto& x, const auto& y) {
      return std::pair(x.second, x.first) < std::pair(y.second, y.first);
    });
    out_.nics = most->second;
    out_.nic_bandwidth = BytesPerSecond(static_cast<double>(most->first) * 1.25e5);
    for (const auto& [speed, count] : speeds_) {
      if (speed != most->first)
        out_.left_out.push_back(
            fmt::format("{} NICs of {} Mbit/s, since {} have {}", count, speed, most->second, most->first));
    }
  }

  const std::string& text_;
  std::string file_;
  NodeTopology out_;
  std::vector<FoundGpu> gpus_;
  std::size_t bridges_ = 0;
  std::int64_t controllers_ = 0;
  std::map<std::int64_t, std::int64_t> speeds_;  // NICs by Mbit/s
  std::map<std::string, std::int64_t> to_switch_;
  std::map<std::pair<std::string, std::string>, std::int64_t> between_;
};

}  // namespace

NodeTopology read_nccl_topology(const std::string& text, const std::string& file) {
  return TopologyFile(text, file).read();
}

}  // namespace moeplan::profiler
