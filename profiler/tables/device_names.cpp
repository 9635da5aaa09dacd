#include "profiler/tables/device_names.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

/// The words of a GPU's names: all of them, and none of `not_words`, stand in the name of the device.
struct GpuName {
  std::string_view gpu;
  std::array<std::string_view, 2> words;
  std::array<std::string_view, 2> not_words = {};
};

constexpr std::array<GpuName, 21> kNames{{{"a100_sxm_40gb", {"A100", "40GB"}, {"PCIe", "PCIE"}},
                                          {"a100_sxm_80gb", {"A100", "80GB"}, {"PCIe", "PCIE"}},
                                          {"a100_pcie", {"A100", "PCIe"}},
                                          {"a100_pcie", {"A100", "PCIE"}},
                                          {"h100_sxm", {"H100", "HBM3"}, {"PCIe", "NVL"}},
                                          {"h100_sxm", {"H100", "SXM5"}},
                                          {"h200_sxm", {"H200", ""}, {"NVL", "GH200"}},
                                          {"h20_sxm", {"H20", ""}},
                                          {"h800_sxm", {"H800", ""}, {"PCIe", "NVL"}},
                                          {"b200_sxm", {"B200", ""}},
                                          {"b300_sxm", {"B300", ""}},
                                          {"gb200", {"GB200", ""}},
                                          {"gb300", {"GB300", ""}},
                                          {"mi300x", {"MI300X", ""}},
                                          {"mi355x", {"MI355X", ""}},
                                          {"v100_sxm2", {"V100", "SXM2"}},
                                          {"v100_pcie", {"V100", "PCIE"}},
                                          {"v100_pcie", {"V100", "PCIe"}},
                                          {"rtx2080ti", {"2080", "Ti"}},
                                          {"rtx3090", {"3090", ""}, {"Ti"}},
                                          {"rtx4090", {"4090", ""}, {"D"}}}};

}  // namespace

std::optional<std::string> gpu_of_device(std::string_view device) {
  std::string spaced(device);
  std::replace(spaced.begin(), spaced.end(), '-', ' ');
  const std::vector<std::string_view> in = words(spaced);
  const auto has = [&](std::string_view word) { return std::find(in.begin(), in.end(), word) != in.end(); };
  for (const GpuName& name : kNames) {
    const bool has_all = std::all_of(name.words.begin(), name.words.end(),
                                     [&](std::string_view word) { return word.empty() || has(word); });
    if (has_all && std::none_of(name.not_words.begin(), name.not_words.end(), has)) return std::string(name.gpu);
  }
  return std::nullopt;
}

}  // namespace moeplan::profiler
