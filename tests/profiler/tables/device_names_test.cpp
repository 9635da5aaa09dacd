#include "profiler/tables/device_names.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

namespace moeplan::tests::device_names_test {

using profiler::gpu_of_device;

TEST_CASE("a device's name tells which GPU of configs/gpus it is") {
  const std::pair<std::string, std::string> cases[] = {{"NVIDIA H100 80GB HBM3", "h100_sxm"},
                                                       {"NVIDIA H200", "h200_sxm"},
                                                       {"NVIDIA H20", "h20_sxm"},
                                                       {"NVIDIA H800", "h800_sxm"},
                                                       {"NVIDIA B200", "b200_sxm"},
                                                       {"NVIDIA B300 SXM6 AC", "b300_sxm"},
                                                       {"NVIDIA GB200", "gb200"},
                                                       {"NVIDIA A100-SXM4-40GB", "a100_sxm_40gb"},
                                                       {"NVIDIA A100-SXM4-80GB", "a100_sxm_80gb"},
                                                       {"NVIDIA A100 80GB PCIe", "a100_pcie"},
                                                       {"NVIDIA A100-PCIE-40GB", "a100_pcie"},
                                                       {"Tesla V100-SXM2-16GB", "v100_sxm2"},
                                                       {"NVIDIA GeForce RTX 4090", "rtx4090"}};
  for (const auto& [device, gpu] : cases) {
    CAPTURE(device);
    CHECK(gpu_of_device(device) == gpu);
    CHECK(std::filesystem::exists(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs/gpus" / (gpu + ".yaml")));
  }
  SECTION("boards of other bandwidth are other GPUs") {
    for (const std::string device : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA GH200 480GB", "", "H1000"}) {
      CAPTURE(device);
      CHECK_FALSE(gpu_of_device(device));
    }
  }
}

}  // namespace moeplan::tests::device_names_test
