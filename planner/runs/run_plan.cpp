#include "planner/runs/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/text/reader.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/run_model.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

using profiler::RunRow;

/// How a dispatcher exchanges rows.
struct Dispatcher {
  std::string_view name;
  std::string_view all_to_all;  // a name of planner/layer/all_to_all.hpp
  ExpertLayout layout;          // of an all-to-all that writes rows in the order of their sources
  std::string_view note;        // what is rough about it; "" if nothing
};
constexpr std::array<Dispatcher, 6> kDispatchers{{{"nccl", "linear", ExpertLayout::Sorted, ""},
                                                  {"allgather", "all_gather", ExpertLayout::Merged, ""},
                                                  {"deepep", "deepep", ExpertLayout::Sorted, ""},
                                                  {"hybridep", "hybridep", ExpertLayout::Merged, ""},
                                                  {"mori", "deepep", ExpertLayout::Sorted, "priced as DeepEP"},
                                                  {"fused", "fused", ExpertLayout::Merged, ""}}};

constexpr std::array<std::pair<MemoryCounts, std::string_view>, 3> kMemoryCounts{
    {{MemoryCounts::Tensors, "tensors"}, {MemoryCounts::Reserved, "reserved"}, {MemoryCounts::Device, "device"}}};

// Of the column routing: with a capacity factor, and with a stage of training or a max_load.
constexpr std::string_view kPadded = "padded:", kNatural = "natural:";

constexpr int kLatestCore = 14;  // of Megatron-Core 0.n: later releases have nothing that a row's defaults depend on

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool is_megatron(const std::string& stack) {
  return stack.empty() || contains(stack, "Megatron") || contains(stack, "Primus") || contains(stack, "NeMo");
}

/// The n of Megatron-Core 0.n in a container of NeMo, "25.05": those of 2024 by its pages of software component
/// versions, and one release more in each later one.
int core_version_of_nemo(std::string_view container) {
  constexpr std::array<std::pair<std::string_view, int>, 8> kReleases{{{"24.05", 7},
                                                                       {"24.07", 8},
                                                                       {"24.09", 9},
                                                                       {"24.12", 10},
                                                                       {"25.02", 11},
                                                                       {"25.04", 12},
                                                                       {"25.07", 13},
                                                                       {"25.09", 14}}};
  if (container.size() < 5 || container[2] != '.') return kLatestCore;
  int version = kReleases.front().second;  // or older, with as little
  for (const auto& [first, core] : kReleases) {
    if (container.substr(0, 5) >= first) version = core;
  }
  return version;
}

/// The n of Megatron-Core 0.n, if the stack names it: "Megatron-Core 0.10", "Megatron-LM (MCore v0.9)", "NeMo 24.12";
/// else the latest.
int core_version(const std::string& stack) {
  constexpr std::string_view kNemo = "NeMo ";
  if (stack.starts_with(kNemo)) return core_version_of_nemo(std::string_view(stack).substr(kNemo.size()));
  const std::size_t core = stack.find("Core"), zero = core == std::string::npos ? core : stack.find("0.", core);
  if (zero == std::string::npos || stack.find_first_not_of("Core v", core) != zero) return kLatestCore;
  int version = 0;
  const char* const begin = stack.data() + zero + 2;
  if (std::from_chars(begin, stack.data() + stack.size(), version).ptr == begin) return kLatestCore;
  return version;
}

/// The recipes of Megatron-Bridge and Primus take the loss of Transformer Engine, Megatron-LM by default its own.
/// Primus pads rows where it permutes them. To capture experts that drop no tokens, Megatron-Core needed its paged
/// stash, and that the fused kernels of the experts (its pull request 6828, August 2026). Megatron-Core permutes by one
/// kernel from 0.11 on (its change log), and has the router's kernels fused from 0.14 on (its README of MoE).
/// Transformer Engine's loss is of February 2025 (its pull request 1456), and no older than Megatron-Core 0.11.
Fusions usual_fusions(const RunRow& row, bool captures_dropless_experts) {
  const bool is_primus = contains(row.stack, "Primus");
  Fusions out = Fusions::Default;
  if (is_primus) out.add(Fusion::Padding);
  if (row.pytorch_modules == "eager") return moeplan::usual_fusions(PyTorchModules::Eager);
  if (row.pytorch_modules == "compiled") return moeplan::usual_fusions(PyTorchModules::Compiled);
  if (is_megatron(row.stack) && captures_dropless_experts) out.add(Fusion::GroupedMlp);
  if (contains(row.stack, "Megatron") && !contains(row.stack, "Bridge") && !is_primus) out.remove(Fusion::CrossEntropy);
  const int core = core_version(row.stack);
  if (core < 11) {
    out.remove(Fusion::Permute);
    out.remove(Fusion::CrossEntropy);
  }
  if (core < 14) out.remove(Fusion::Router);
  return out;
}

/// PyTorch's FSDP2, whose mixed precision keeps weights in fp32 only.
bool has_fsdp2(const RunRow& row) {
  return row.zero == 3 && row.precision != "fp32" &&
         (contains(row.stack, "torchtitan") || contains(row.stack, "prime-rl"));
}

/// Megatron-LM reduces gradients after the backward pass unless it is given --overlap-grad-reduce, which the recipes of
/// Megatron-Bridge and NeMo give it.
void set_gradient_overlap(const RunRow& row, Node& document, std::vector<std::string>& defaults) {
  const bool is_late = row.stack.starts_with("Megatron-LM") && row.zero.value_or(1) <= 1;
  if (is_late && !row.overlap_gradients) defaults.push_back("overlap_gradients 0");
  if (row.overlap_gradients.value_or(is_late ? 0 : 1) == 0) document.set("overlap_gradients", Node::boolean(false));
}

/// The columns whose words are those of a workload, most of which have no default of a stack.
void set_as_stated(const RunRow& row, Node& document, std::vector<std::string>& defaults) {
  const auto set = [&](const char* key, const std::string& text) {
    if (!text.empty()) document.set(key, Node::text(text));
  };
  set("recompute_layers", row.recompute_layers);
  set("offload", row.offload);
  set("pytorch_modules", row.pytorch_modules);
  if (row.loss_chunks) document.set("loss_chunks", Node::integer(*row.loss_chunks));
  set_gradient_overlap(row, document, defaults);
}

/// Writes what the column routing says into a workload's document; returns what is wrong with it, if anything is.
std::optional<std::string> write_routing(const std::string& routing, Node& document) {
  if (routing == "forced" || routing == "natural") return std::nullopt;
  const bool is_natural = routing.starts_with(kNatural);
  if (!is_natural && !routing.starts_with(kPadded))
    return fmt::format("{} is not known; one of forced, natural, natural:STAGE, natural:MAX_LOAD, padded:FACTOR",
                       in_quotes(routing));
  const std::string argument = routing.substr((is_natural ? kNatural : kPadded).size());
  const auto number = profiler::decimal_number(argument);
  if (is_natural) {
    Node scenario = Node::map();
    if (number) {
      scenario.set("shape", Node::text("lognormal"));
      scenario.set("max_load", Node::number(*number));
    } else {
      scenario.set("stage", Node::text(argument));
    }
    document.set("routing", std::move(scenario));
    return std::nullopt;
  }
  if (!number || *number <= 0)
    return fmt::format("{} has no capacity factor; expected e.g. padded:1.0", in_quotes(routing));
  document.set("capacity_factor", Node::number(*number));
  return std::nullopt;
}

/// Fills a RunPlan from a row; the first thing that cannot be expressed ends it.
class Mapping {
 public:
  Mapping(const RunRow& row, const ModelSpec& model, const Node& default_workload)
      : row_(row), default_workload_(default_workload) {
    out_.cluster = row.cluster;
    out_.world = row.world;
    out_.model = model;
  }

  std::variant<RunPlan, Refusal> result() {
    decide_degrees();
    if (reason_.empty()) decide_workload();
    if (reason_.empty()) decide_layout();
    if (reason_.empty()) decide_exchange();
    if (reason_.empty()) note_rest();
    if (!reason_.empty()) return Refusal{reason_};
    return std::move(out_);
  }

 private:
  void refuse(std::string_view column, std::string message) {
    if (reason_.empty()) reason_ = fmt::format("{}: {}", column, message);
  }

  /// The value of a column, or the stack's default, which is noted.
  std::int64_t value(std::string_view column, const std::optional<std::int64_t>& given, std::int64_t fallback) {
    if (given) return *given;
    if (fallback != 0 || column == "sp") out_.defaults.push_back(fmt::format("{} {}", column, fallback));
    return fallback;
  }
  std::string value(std::string_view column, const std::string& given, const std::string& fallback) {
    if (!given.empty()) return given;
    out_.defaults.push_back(fmt::format("{} {}", column, fallback));
    return fallback;
  }
  void planner_chooses(std::string_view column) {
    out_.defaults.push_back(fmt::format("{} chosen by the planner", column));
    out_.is_searched = true;
  }

  void decide_degrees() {
    planner::SearchSpace& space = out_.space;
    Degrees& d = out_.candidate.degrees;
    const bool has_defaults = is_megatron(row_.stack);
    const auto pin = [&](std::string_view column, const std::optional<std::int64_t>& given, std::int64_t fallback,
                         std::optional<std::int64_t>& pinned, std::int64_t& degree) {
      if (!given && !has_defaults) return planner_chooses(column);
      pinned = degree = value(column, given, fallback);
    };
    pin("tp", row_.tp, 1, space.tp, d.tp);
    pin("pp", row_.pp, 1, space.pp, d.pp);
    pin("cp", row_.cp, 1, space.cp, d.cp);
    pin("etp", row_.etp, out_.model.num_moe_layers() > 0 ? d.tp : 1, space.esp, d.esp);
    pin("vp", row_.vp, 1, space.virtual_stages, out_.candidate.virtual_stages);
    if (row_.ep) space.ep = d.ep = *row_.ep;
    if (!row_.ep) planner_chooses("ep");
    if (row_.sp || has_defaults) {
      out_.candidate.sequence_parallel = d.tp > 1 && value("sp", row_.sp, d.tp > 1 ? 1 : 0) == 1;
      space.sequence_parallel = out_.candidate.sequence_parallel;
    }
    if (out_.is_searched) return;
    const std::int64_t dense = d.tp * d.pp * d.cp, experts = d.ep * d.esp * d.pp;
    if (row_.world % dense != 0)
      return refuse("tp, pp, cp",
                    fmt::format("{} x {} x {} does not divide the {} GPUs", d.tp, d.pp, d.cp, row_.world));
    if (row_.world % experts != 0)
      return refuse("ep, etp, pp",
                    fmt::format("{} x {} x {} does not divide the {} GPUs", d.ep, d.esp, d.pp, row_.world));
    d.dp = row_.world / dense;
    d.edp = row_.world / experts;
  }

  void decide_workload() {
    Node document = default_workload_;
    const bool is_bridge = contains(row_.stack, "Bridge");
    if (row_.global_batch) document.set("global_batch", Node::integer(*row_.global_batch));
    if (!row_.global_batch) out_.defaults.emplace_back("global_batch of the default workload");
    document.set("sequence_length", Node::integer(value("sequence_length", row_.sequence_length, 4096)));
    document.set("zero_stage", Node::integer(value("zero", row_.zero, 1)));
    // Megatron-FSDP's guide and its example job reduce gradients in bf16 (--grad-reduce-in-bf16). Before Megatron-Core
    // 0.12, which brought it, there was PyTorch's, with gradients as without it.
    const int core = core_version(row_.stack);
    const bool reduces_in_bf16 = is_bridge || (is_megatron(row_.stack) && row_.zero == 3 && core >= 12);
    document.set("gradient_dtype",
                 Node::text(value("gradient_dtype", row_.gradient_dtype, reduces_in_bf16 ? "bf16" : "fp32")));
    document.set("optimizer_dtype", Node::text(value("optimizer_dtype", row_.optimizer_dtype, "fp32")));
    if (!row_.main_weights.empty() || has_fsdp2(row_))
      document.set("main_weights", Node::text(value("main_weights", row_.main_weights, "only")));
    set_as_stated(row_, document, out_.defaults);
    document.set("recompute", Node::text(value("recompute", row_.recompute, "none")));
    // Megatron-Core's kernels are those of a workload that weighs in experts.
    document.set("gate_weights", Node::text(is_megatron(row_.stack) ? "in_experts" : "at_sources"));
    if (is_megatron(row_.stack) && core < 13)
      out_.approximations.emplace_back("gate weights: in the experts, as from Megatron-Core 0.13 on (its change log)");
    document.set("capacity_factor", Node::text("none"));
    // Rows are padded so that whole iterations can be captured.
    const bool is_padded = row_.routing.starts_with(kPadded);
    const char* graphs = has_nvl72_recipe() ? "moe_router+moe_preprocess" : is_padded ? "full_iteration" : "none";
    document.set("cuda_graph", Node::text(value("cuda_graph", row_.cuda_graph, graphs)));
    set_fusions(document);
    set_fp8_modules(document);
    set_precision(document);
    set_routing(document);
    if (row_.micro_batch) document.set("micro_batch", Node::integer(*row_.micro_batch));
    if (!row_.micro_batch) planner_chooses("micro_batch");
    if (!reason_.empty()) return;
    try {
      out_.workload = read_workload(document, WorkloadLimits::of(out_.model));
    } catch (const InputError& e) {
      const Diagnostic& first = e.diagnostics().front();
      return refuse(first.key_path == "zero_stage" ? "zero" : first.key_path, first.message);
    }
    out_.candidate.micro_batch = out_.workload.micro_batch.value_or(1);
    out_.candidate.recompute = out_.workload.recompute.value_or(Recompute::None);
  }

  /// Megatron-Bridge's recipes for racks of 72 use HybridEP and capture router and preprocessing, with few exceptions;
  /// 25.09 had neither.
  [[nodiscard]] bool has_nvl72_recipe() const {
    return contains(row_.stack, "Bridge") && !contains(row_.stack, "25.09") && contains(row_.cluster, "nvl72");
  }

  void set_fusions(Node& document) {
    const Fusions fusions = usual_fusions(row_, captures_dropless_experts());
    if (!row_.fusions.empty()) {
      document.set("fusions", Node::text(row_.fusions));
    } else if (fusions != Fusions::Default) {
      document.set("fusions", Node::text(value("fusions", "", name_of(fusions))));
    }
  }

  [[nodiscard]] bool captures_dropless_experts() const {
    return out_.model.num_moe_layers() > 0 && row_.cuda_graph == "full_iteration" && row_.precision == "mxfp8" &&
           !row_.routing.starts_with(kPadded);
  }

  /// Megatron-Bridge's recipes with such graphs multiply attention in 8 bits too, but DeepSeek-V3's for GB200.
  void set_fp8_modules(Node& document) {
    const bool is_recipe = contains(row_.stack, "Bridge") && captures_dropless_experts();
    const std::string& given = row_.fp8_modules;
    const std::string modules = given.empty() && is_recipe ? value("fp8_modules", given, "attention") : given;
    if (!modules.empty()) document.set("fp8_modules", Node::text(modules));
  }

  void set_precision(Node& document) {
    const std::string precision = value("precision", row_.precision, "bf16");
    document.set("dtype", Node::text(named<Dtype>(kDtypeNames, precision) ? precision : "bf16"));
    document.set("precision", Node::text(precision));
  }

  void set_routing(Node& document) {
    const std::string routing = value("routing", row_.routing, "forced");
    if (routing == "natural") out_.approximations.emplace_back("routing natural: balanced, no loads are given");
    if (const auto wrong = write_routing(routing, document)) refuse("routing", *wrong);
  }

  void decide_layout() {
    planner::PipelineLayout layout;
    const Degrees& d = out_.candidate.degrees;
    const std::int64_t layers = out_.model.num_layers(), mtp = out_.model.num_mtp_layers;
    if (!row_.layout.empty()) {
      auto parsed = planner::parse_layout(row_.layout);
      if (const auto* error = std::get_if<std::string>(&parsed)) return refuse("layout", *error);
      layout = std::get<planner::PipelineLayout>(std::move(parsed));
      if (layout.layers() != layers)
        return refuse("layout", fmt::format("{} layers, the model has {}", layout.layers(), layers));
      if (!out_.space.pp || std::ssize(layout.parts) != d.pp * out_.candidate.virtual_stages) {
        return refuse("layout", fmt::format("has {} parts; expected pp x vp = {} x {}", layout.parts.size(), d.pp,
                                            out_.candidate.virtual_stages));
      }
    } else if (out_.space.pp && out_.space.virtual_stages) {
      layout = planner::even_layout(layers, mtp, d.pp * out_.candidate.virtual_stages);
      if (layout.empty() && layers >= d.pp * out_.candidate.virtual_stages)
        out_.defaults.emplace_back("layout divided by FLOPs");
      if (d.pp > 1 && !layout.empty()) out_.defaults.emplace_back("layout with equal numbers of layers");
    }
    out_.candidate.layout = out_.space.layout = std::move(layout);
  }

  void decide_exchange() {
    const std::string name = value("dispatcher", row_.dispatcher, has_nvl72_recipe() ? "hybridep" : "nccl");
    const auto known =
        std::find_if(kDispatchers.begin(), kDispatchers.end(), [&](const Dispatcher& d) { return d.name == name; });
    if (known == kDispatchers.end()) {
      std::vector<std::string> names;
      for (const Dispatcher& d : kDispatchers) names.emplace_back(d.name);
      return refuse("dispatcher", fmt::format("{} is not known{}", in_quotes(name), suggestion(name, names)));
    }
    if (!known->note.empty()) out_.approximations.push_back(fmt::format("dispatcher {}: {}", name, known->note));
    out_.workload.expert_layout = is_megatron(row_.stack) ? known->layout : ExpertLayout::Merged;
    out_.candidate.all_to_all = out_.candidate.degrees.ep > 1 ? known->all_to_all : "linear";
    if (out_.candidate.all_to_all->is_dispatcher())
      out_.candidate.dispatcher_sms = out_.space.dispatcher_sms = row_.dispatcher_sms.value_or(0);
    if (is_megatron(row_.stack) && out_.candidate.degrees.esp > 1) out_.candidate.schedule = "megatron_etp";
    out_.space.schedule = out_.candidate.schedule;
    out_.space.all_to_all = out_.candidate.all_to_all;
    out_.space.codec = CodecPair{};
    out_.space.pipeline_degree = 1;
  }

  /// One microbatch's exchanges during its neighbour's computation.
  void set_overlap() {
    out_.space.pipeline = planner::PipelineShape::Interleaved;
    out_.space.ep_overlap = out_.space.delays_weight_gradients = false;
    if (row_.ep_overlap != "1" && row_.ep_overlap != "wgrad") return;
    const bool is_possible = out_.candidate.degrees.pp == 1 || out_.candidate.virtual_stages > 1;
    out_.candidate.ep_overlap = is_possible;
    out_.space.ep_overlap = is_possible;
    if (!is_possible) out_.approximations.push_back("ep_overlap: none without interleaved pipeline stages");
    out_.candidate.delays_weight_gradients = is_possible && row_.ep_overlap == "wgrad";
    out_.space.delays_weight_gradients = out_.candidate.delays_weight_gradients;
  }

  /// What the measured memory counts: Megatron-LM and what is built on it print their allocator's peak, Primus what the
  /// device has in use. Megatron-Bridge divides it by 1e9 (train_utils.py, report_memory).
  void decide_memory() {
    if (!row_.peak_memory) return;
    const bool prints_allocator = is_megatron(row_.stack) && !row_.stack.empty() && !contains(row_.stack, "Primus");
    const std::string counts = value("memory_counts", row_.memory_counts, prints_allocator ? "tensors" : "device");
    const auto known =
        std::find_if(kMemoryCounts.begin(), kMemoryCounts.end(), [&](const auto& c) { return c.second == counts; });
    if (known == kMemoryCounts.end())
      return refuse("memory_counts",
                    fmt::format("{} is not known; one of tensors, reserved, device", in_quotes(counts)));
    out_.memory_counts = known->first;
    const std::string unit = value("memory_unit", row_.memory_unit, contains(row_.stack, "Bridge") ? "GB" : "GiB");
    if (unit != "GB" && unit != "GiB")
      return refuse("memory_unit", fmt::format("{} is not known; one of GiB, GB", in_quotes(unit)));
    constexpr double kGbPerGib = 1e9 / 1073741824.0;
    out_.measured_memory = *row_.peak_memory * (unit == "GB" ? kGbPerGib : 1.0);
  }

  void note_rest() {
    decide_memory();
    set_overlap();
    if (row_.ep_overlap != "0" && row_.ep_overlap != "1" && row_.ep_overlap != "wgrad" && !row_.ep_overlap.empty())
      return refuse("ep_overlap", fmt::format("{} is not known; one of 0, 1, wgrad", in_quotes(row_.ep_overlap)));
  }

  const RunRow& row_;
  const Node& default_workload_;
  RunPlan out_{};
  std::string reason_;
};

}  // namespace

RunPlanner::RunPlanner()
    : by_id_(planner::models_by_hugging_face_id()),
      default_workload_(load_document(planner::find_config("workloads", "default"))) {}

const ModelSpec& RunPlanner::model_of(const RunRow& row) {
  const std::pair key(row.model, row.model_overrides);
  if (const auto known = models_.find(key); known != models_.end()) return known->second;
  return models_.emplace(key, with_overrides(named_model(row.model, by_id_), row.model_overrides)).first->second;
}

std::variant<RunPlan, Refusal> RunPlanner::plan(const RunRow& row, const ModelSpec& model) const {
  return Mapping(row, model, default_workload_).result();
}

std::variant<RunPlan, Refusal> RunPlanner::plan(const RunRow& row) {
  try {
    return plan(row, model_of(row));
  } catch (const InputError& e) {
    const Diagnostic& first = e.diagnostics().front();
    return Refusal{first.where.file.empty() ? fmt::format("{}: {}", first.key_path, first.message) : first.text()};
  }
}

}  // namespace moeplan::runs
