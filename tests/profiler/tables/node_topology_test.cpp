#include "profiler/tables/node_topology.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::node_topology_test {

using namespace moeplan::profiler;

namespace {

std::string pci(const std::string& bus, const std::string& device_class, const std::string& inner = "",
                const std::string& speed = "32.0 GT/s PCIe") {
  return fmt::format("<pci busid=\"{}\" class=\"{}\" device=\"0x2330\" link_speed=\"{}\" link_width=\"16\">{}</pci>\n",
                     bus, device_class, speed, inner);
}

std::string system_of(const std::string& first, const std::string& second = "") {
  return "<system version=\"1\">\n<cpu numaid=\"0\">\n" + first + "</cpu>\n" +
         (second.empty() ? "" : "<cpu numaid=\"1\">\n" + second + "</cpu>\n") + "</system>\n";
}

std::string switched_gpu(const std::string& bus) {
  return pci(bus, "0x030200",
             "<gpu dev=\"0\" sm=\"90\"><nvlink target=\"s0\" count=\"10\" tclass=\"0x068000\"/><nvlink target=\"s1\" "
             "count=\"8\" tclass=\"0x068000\"/></gpu>");
}

std::string nic(const std::string& bus, int megabits) {
  return pci(bus, "0x020000",
             fmt::format("<nic><net name=\"mlx{}\" dev=\"0\" speed=\"{}\" port=\"1\"/></nic>", bus, megabits));
}

NodeTopology nccl(const std::string& text) { return read_nccl_topology(text, "t.xml"); }
NodeTopology smi(const std::string& text) { return read_nvidia_smi_topology(text, "t.txt"); }

}  // namespace

TEST_CASE("A topology file of NCCL shows GPUs, NVLinks, PCIe and NICs") {
  SECTION("of a node with NVSwitches, two GPUs and a NIC a PCIe switch") {
    const auto half = [](const std::string& n) {
      return pci("sw" + n, "0x060400", switched_gpu("a" + n) + switched_gpu("b" + n) + nic("n" + n, 400000));
    };
    const NodeTopology t = nccl(system_of(half("0"), half("1")));
    CHECK(t.gpus == 4);
    CHECK(t.gpu_kinds == std::set<std::string>{"h100_sxm"});
    CHECK(t.switch_links == 18);
    CHECK(t.direct.empty());
    CHECK(t.gpus_per_switch == 2);
    CHECK(t.switches_per_bridge == 1);
    CHECK(t.bridges == 2);
    CHECK(t.pcie_bandwidth->value() == Approx(32e9 * 16 * 128 / 130 / 8));
    CHECK(t.nics == 2);
    CHECK(t.nic_bandwidth->value() == 400 * 1.25e8);
    CHECK(t.left_out.empty());
  }
  SECTION("of GPUs on host bridges with direct NVLinks, and controllers of unknown speed") {
    const std::string links = "<gpu dev=\"0\"><nvlink target=\"b\" count=\"4\" tclass=\"0x030200\"/></gpu>";
    const std::string back = "<gpu dev=\"1\"><nvlink target=\"a\" count=\"4\" tclass=\"0x030200\"/></gpu>";
    const NodeTopology t = nccl(system_of(pci("a", "0x030200", links, "5.0 GT/s") +
                                          pci("b", "0x030200", back, "5.0 GT/s") + pci("n", "0x020700")));
    CHECK(t.direct == std::vector<NvLinks>{{0, 1, 4}});
    CHECK(t.gpus_per_switch == 0);
    CHECK(t.switches_per_bridge == 2);
    CHECK(t.pcie_bandwidth->value() == 5e9 * 16 * 0.8 / 8);  // 8b/10b coding
    CHECK(t.nics == 1);
    CHECK_FALSE(t.nic_bandwidth);
  }
  SECTION("what it cannot hold is said") {
    const std::string self = "<gpu dev=\"0\"><nvlink target=\"a\" count=\"12\" tclass=\"0x030200\"/></gpu>";
    const NodeTopology t =
        nccl(system_of(pci("a", "0x030200", self) + nic("n0", 400000) + nic("n1", 400000) + nic("m", 25000)));
    REQUIRE(t.left_out.size() == 2);
    CHECK(t.left_out[0].starts_with("NVLinks of 1 GPUs whose other end the file does not show"));
    CHECK(t.left_out[1] == "1 NICs of 25000 Mbit/s, since 2 have 400000");
    CHECK(t.nics == 2);
  }
}

TEST_CASE("A broken topology file is refused with its line, key and what was expected") {
  const auto error = [](const std::string& text) { return error_of([&] { (void)nccl(text); }); };
  CHECK(error("").starts_with("t.xml:1:1: is "));
  CHECK(error("<system>\n<cpu>\n").starts_with("t.xml:3:1: is not valid XML: "));
  CHECK(error("<graph/>") == "t.xml:1:1: is no topology file of NCCL: expected the element <system>");
  CHECK(error(system_of("")).starts_with("t.xml:1:1: system: has no GPU: expected <pci> elements of class 0x0302"));
  CHECK(error(system_of("<pci busid=\"a\"/>")) ==
        "t.xml:3:1: system.cpu.pci[a].class: missing attribute; expected e.g. 0x030200");
  CHECK(error(system_of(pci("a", "0x030200", "", "fast"))) ==
        "t.xml:3:1: system.cpu.pci[a].link_speed: \"fast\" with width \"16\" is no rate; expected e.g. \"16 GT/s\" and "
        "16");
  CHECK(error(system_of(pci("a", "0x030200") + "<nic><net name=\"x\" speed=\"much\"/></nic>")) ==
        "t.xml:4:1: net[x].speed: \"much\" is no speed; expected Mbit/s");
  CHECK(error(system_of(pci("a", "0x030200", "<gpu><nvlink target=\"b\" count=\"99\"/></gpu>")))
            .find("system.cpu.pci[a].gpu.nvlink.count: \"99\" is out of range; expected 1 to 18") != std::string::npos);
}

TEST_CASE("nvidia-smi topo -m shows NVLinks, PCIe switches and NUMA nodes") {
  SECTION("more links in all than a GPU has go through switches") {
    const NodeTopology t =
        smi("\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tNV12\tNV12\tPXB\t0-31\n"
            "GPU1\tNV12\t X \tNV12\tSYS\t0-31\nGPU2\tNV12\tNV12\t X \tSYS\t0-31\nNIC0\tPXB\tSYS\tSYS\t X\n");
    CHECK(t.gpus == 3);
    CHECK(t.nics == 1);
    CHECK(t.switch_links == 12);
    CHECK(t.direct.empty());
  }
  SECTION("fewer are direct, and SYS separates host bridges") {
    const NodeTopology t =
        smi("      GPU0 GPU1 GPU2 GPU3\nGPU0 X NV4 SYS SYS\nGPU1 NV4 X SYS SYS\nGPU2 SYS SYS X PIX\n"
            "GPU3 SYS SYS PIX X\n");
    CHECK(t.direct == std::vector<NvLinks>{{0, 1, 4}});
    CHECK(t.bridges == 2);
    CHECK(t.gpus_per_switch == 2);
    CHECK(t.switches_per_bridge == 1);
  }
  SECTION("what is wrong is said with its line") {
    const auto error = [](const std::string& text) { return error_of([&] { (void)smi(text); }); };
    CHECK(error("nothing\n") == "t.txt:1:1: is no matrix of nvidia-smi topo -m: expected a line that begins with GPU0");
    CHECK(error("  GPU0 GPU1\nGPU0 X\n") == "t.txt:2:1: GPU0: has 1 cells; expected one for each of 2 GPUs");
    CHECK(error("  GPU0 GPU1\nGPU0 X FAST\n") ==
          "t.txt:2:1: GPU0.GPU1: \"FAST\" is no connection; expected X, SYS, NODE, "
          "PHB, PXB, PIX or NV and a number");
    CHECK(error("  GPU0 GPU1\nGPU0 X SYS\n").find("ends after 1 rows of GPUs; expected 2") != std::string::npos);
    CHECK(error("  GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X\n") ==
          "t.txt:1:1: GPU1.GPU0: is PIX there and SYS back; expected the same");
    CHECK(error("  GPU0 GPU1\nGPU0 SYS X\n") == "t.txt:2:1: GPU0.GPU0: expected X on the diagonal, and only there");
  }
}

}  // namespace moeplan::tests::node_topology_test
