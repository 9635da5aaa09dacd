#include "planner/eplb/expert_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/base/diagnostics.hpp"
#include "model/base/to_index.hpp"
#include "planner/placement/strategies/eplb.hpp"

namespace moeplan::planner {

namespace {

using Numbers = std::vector<std::int64_t>;

void check_shape(const ExpertLoads& loads, const ExpertMapShape& shape) {
  Diagnostics wrong;
  const std::int64_t experts = loads.experts(), physical = experts + shape.redundant;
  if (shape.gpus % shape.nodes != 0)
    wrong.add({"--nodes"}, "", fmt::format("{} does not divide the {} GPUs", shape.nodes, shape.gpus));
  if (experts % shape.groups != 0)
    wrong.add({"--groups"}, "", fmt::format("{} does not divide the {} experts", shape.groups, experts));
  if (physical % shape.gpus != 0) {
    const std::int64_t more = shape.redundant + shape.gpus - physical % shape.gpus, less = more - shape.gpus;
    wrong.add({"--redundant"}, "",
              fmt::format("{} experts and {} redundant ones do not divide among {} GPUs; {}{} do", experts,
                          shape.redundant, shape.gpus, less >= 0 ? fmt::format("{} or ", less) : "", more));
  }
  wrong.throw_if_any();
}

/// Experts in order, again from the first one on for redundant slots.
Numbers in_order(std::int64_t experts, std::int64_t physical) {
  Numbers row(to_index(physical));
  for (std::size_t p = 0; p < row.size(); ++p) row[p] = static_cast<std::int64_t>(p) % experts;
  return row;
}

EplbLayer layer_of(const ExpertMap& map, std::size_t layer) {
  const Numbers& row = map.physical_to_logical[layer];
  EplbLayer out{row, {}, Numbers(to_index(map.experts), 0)};
  for (const std::int64_t e : row) out.phy2index.push_back(out.logcnt[to_index(e)]++);
  return out;
}

std::vector<EplbLayer> layers_of(const ExpertMap& map) {
  std::vector<EplbLayer> out;
  for (std::size_t l = 0; l < map.physical_to_logical.size(); ++l) out.push_back(layer_of(map, l));
  return out;
}

nlohmann::ordered_json ascend_document(const ExpertMap& map) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t l = 0; l < map.physical_to_logical.size(); ++l) {
    if (!map.is_moe[l]) continue;
    const Numbers& row = map.physical_to_logical[l];
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    const std::int64_t slots = map.slots_per_gpu();
    for (std::int64_t g = 0; g < map.shape.gpus; ++g) {
      const auto begin = row.begin() + g * slots;
      devices.push_back({{"device_id", g}, {"device_expert", Numbers(begin, begin + slots)}});
    }
    layers.push_back({{"layer_id", layers.size()}, {"device_count", map.shape.gpus}, {"device_list", devices}});
  }
  return {{"moe_layer_count", layers.size()}, {"layer_list", layers}};
}

std::string trtllm_text(const ExpertMap& map) {
  std::string out = "initial_global_assignments:\n";
  for (std::size_t l = 0; l < map.physical_to_logical.size(); ++l) {
    if (map.is_moe[l]) out += fmt::format("  {}: [{}]\n", l, fmt::join(map.physical_to_logical[l], ", "));
  }
  return out + fmt::format("num_slots: {}\nlayer_updates_per_iter: 0\n", map.experts + map.shape.redundant);
}

}  // namespace

ExpertMap balanced_map(const ExpertLoads& loads, const ExpertMapShape& shape) {
  check_shape(loads, shape);
  ExpertMap map{shape, loads.experts(), {}, {}};
  const std::int64_t physical = map.experts + shape.redundant;
  for (std::size_t l = 0; l < loads.layers.size(); ++l) {
    map.is_moe.push_back(loads.has_experts(l));
    map.physical_to_logical.push_back(
        map.is_moe.back() ? eplb_rebalance(loads.layers[l], physical, shape.groups, shape.nodes, shape.gpus).phy2log
                          : in_order(map.experts, physical));
  }
  return map;
}

ExpertMap contiguous_map(const ExpertLoads& loads, const ExpertMapShape& shape) {
  ExpertMap map{shape, loads.experts(), {}, {}};
  map.shape.redundant = (shape.gpus - map.experts % shape.gpus) % shape.gpus;  // as few as divide
  for (std::size_t l = 0; l < loads.layers.size(); ++l) {
    map.is_moe.push_back(loads.has_experts(l));
    map.physical_to_logical.push_back(in_order(map.experts, map.experts + map.shape.redundant));
  }
  return map;
}

Placement placement_of(const ExpertMap& map, std::size_t layer) {
  Placement placement{Nearest::Off, std::vector<ExpertPlacement>(to_index(map.experts))};
  const Numbers& row = map.physical_to_logical[layer];
  for (std::size_t p = 0; p < row.size(); ++p) {
    const auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(p) / map.slots_per_gpu());
    add_holder(placement.experts[to_index(row[p])], RankId(rank), 1);
  }
  for (ExpertPlacement& expert : placement.experts) {
    std::sort(expert.holders.begin(), expert.holders.end(),
              [](const ExpertHolder& a, const ExpertHolder& b) { return a.rank < b.rank; });
    expert.home = expert.holders.front().rank;
  }
  return placement;
}

double balancedness(const ExpertMap& map, std::size_t layer, const std::vector<std::int64_t>& loads) {
  const EplbLayer replicas = layer_of(map, layer);
  std::vector<double> gpus(to_index(map.shape.gpus), 0);
  for (std::size_t p = 0; p < replicas.phy2log.size(); ++p) {
    const std::size_t e = to_index(replicas.phy2log[p]);
    gpus[p / to_index(map.slots_per_gpu())] += static_cast<double>(loads[e]) / static_cast<double>(replicas.logcnt[e]);
  }
  const double most = *std::max_element(gpus.begin(), gpus.end());
  return most > 0 ? std::accumulate(gpus.begin(), gpus.end(), 0.0) / static_cast<double>(gpus.size()) / most : 1;
}

std::string map_error(const ExpertMap& map) {
  const std::int64_t physical = map.experts + map.shape.redundant;
  if (physical % map.shape.gpus != 0) return fmt::format("{} GPUs do not divide {}", map.shape.gpus, physical);
  for (std::size_t l = 0; l < map.physical_to_logical.size(); ++l) {
    const Numbers& row = map.physical_to_logical[l];
    if (std::ssize(row) != physical) return fmt::format("layer {} has {} physical experts", l, row.size());
    Numbers count(to_index(map.experts), 0);
    for (const std::int64_t e : row) {
      if (e < 0 || e >= map.experts) return fmt::format("layer {} has an expert {}", l, e);
      ++count[to_index(e)];
    }
    const auto missing = std::find(count.begin(), count.end(), 0);
    if (missing != count.end()) return fmt::format("layer {} lacks expert {}", l, missing - count.begin());
  }
  return "";
}

std::string expert_map_text(const ExpertMap& map, ExpertMapFormat format) {
  nlohmann::ordered_json out;
  switch (format) {
    case ExpertMapFormat::TrtLlm: return trtllm_text(map);
    case ExpertMapFormat::VllmAscend: out = ascend_document(map); break;
    case ExpertMapFormat::Sglang: out["physical_to_logical_map"] = map.physical_to_logical; break;
    case ExpertMapFormat::Vllm: {
      const EplbTables tables = eplb_tables(layers_of(map));
      out["eplb_config"] = {{"num_redundant_experts", map.shape.redundant}};
      out["physical_to_logical_map"] = map.physical_to_logical;
      out["logical_to_physical_map"] = tables.log2phy;
      out["logical_replica_count"] = tables.logcnt;
      break;
    }
    case ExpertMapFormat::Eplb: {
      const EplbTables tables = eplb_tables(layers_of(map));
      out["phy2log"] = tables.phy2log;
      out["log2phy"] = tables.log2phy;
      out["logcnt"] = tables.logcnt;
      break;
    }
  }
  return out.dump() + '\n';
}

std::string how_to_load(const ExpertMap& map, ExpertMapFormat format, const std::string& file) {
  switch (format) {
    case ExpertMapFormat::Sglang:
      return fmt::format("python -m sglang.launch_server ... --init-expert-location {} --ep-num-redundant-experts {}",
                         file, map.shape.redundant);
    case ExpertMapFormat::Vllm:
      return fmt::format(
          "vllm serve ... --enable-eplb --eplb-config '{{\"num_redundant_experts\": {}}}'; vLLM takes no "
          "map, it makes one of the loads that it records",
          map.shape.redundant);
    case ExpertMapFormat::VllmAscend:
      return fmt::format("vllm serve ... --additional-config '{{\"eplb_config\": {{\"expert_map_path\": \"{}\"}}}}'",
                         file);
    case ExpertMapFormat::TrtLlm:
      return fmt::format("moe_config: {{load_balancer: {}}} in the options of trtllm-serve", file);
    case ExpertMapFormat::Eplb: return "phy2log, log2phy, logcnt as deepseek-ai/EPLB's rebalance_experts returns them";
  }
  return "";
}

}  // namespace moeplan::planner
