#include "cli/pages/reports/plan_html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/pages/page_parts.hpp"
#include "model/text/origins.hpp"

namespace moeplan::cli {

namespace {

std::string with_thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}

double exposed_share(const planner::Prediction& p) {
  return p.makespan > SimTime() ? p.binding.exposed_communication / p.makespan.seconds() : 0;
}

std::vector<ReportTile> tiles_of(const PlanView& view) {
  const planner::Prediction& p = view.explanation.prediction;
  const Bytes capacity = view.explanation.plan.cluster.memory_per_rank();
  return {{human(p.makespan.seconds()), "step time"},
          {with_thousands(p.tokens_per_s_per_gpu), "tokens/s/GPU"},
          {in_percent(p.model_flops_utilization), "MFU: of peak FLOP/s"},
          {fmt::format("{} GiB", gib(p.memory.total())), fmt::format("of {} GiB per GPU", gib(capacity))},
          {in_percent(exposed_share(p)), "exposed communication"},
          {in_percent(p.schedule_gap()), "above the lower bound"}};
}

std::string answer(const PlanView& view) {
  const auto& [plan, inputs, cluster] = view.explanation.plan;
  const planner::Prediction& p = view.explanation.prediction;
  return fmt::format(
      "An iteration of {} on {} GPUs ({}) takes {}, which is {} tokens/s/GPU or {} MFU. No order of the plan's "
      "operations takes less than {} (bound by the {}): the plan is {} above this bound. The fullest GPU needs {} of "
      "{}. Accuracy of such predictions: {}.",
      inputs.model.name, with_thousands(static_cast<double>(cluster.gpus())), cluster.gpu.name,
      human(p.makespan.seconds()), with_thousands(p.tokens_per_s_per_gpu), in_percent(p.model_flops_utilization),
      human(p.estimate.lower_bound), p.estimate.bound_by, in_percent(p.schedule_gap()), human(p.memory.total()),
      human(cluster.memory_per_rank()), accuracy_text(inputs));
}

std::string decision_facts(const PlanView& view) {
  const auto& [plan, inputs, cluster] = view.explanation.plan;
  const planner::Candidate& c = plan.candidate;
  const Degrees& d = c.degrees;
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](const char* name, std::int64_t value) { facts.emplace_back(name, fmt::format("{}", value)); };
  add("pipeline stages, pp", d.pp);
  if (c.virtual_stages > 1) add("virtual stages, vp", c.virtual_stages);
  add("tensor parallel, tp", d.tp);
  if (d.cp > 1) add("context parallel, cp", d.cp);
  add("data parallel, dp", d.dp);
  add("expert parallel, ep", d.ep);
  add("shards per expert, etp", d.esp);
  add("replicas of an expert, edp", d.edp);
  add("micro batch", c.micro_batch);
  add("microbatches", inputs.workload.global_batch / (d.dp * c.micro_batch));
  facts.emplace_back("recomputation", name_of(c.recompute));
  facts.emplace_back("schedule of MoE layers", c.runs.empty() ? c.schedule.name() : "several");
  facts.emplace_back("all-to-all", c.all_to_all.name());
  add("chunks of a microbatch", c.pipeline_degree);
  facts.emplace_back("codec", codec_pair_name(c.codec));
  facts.emplace_back("sequence parallelism", c.sequence_parallel ? "yes" : "no");
  if (!c.expert_places.empty()) facts.emplace_back("placement", c.placement.name());
  facts.emplace_back("rank order", name_of(c.rank_order));
  if (!c.layout.empty()) facts.emplace_back("layout", shortened(c.layout.text()));
  return html_facts(facts);
}

std::string bottleneck_table(const Explanation& e) {
  constexpr std::size_t kMost = 10;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(kMost, e.path.bottlenecks.size()); ++i) {
    const auto& [name, time] = e.path.bottlenecks[i];
    rows.push_back({name, human(time.seconds()), in_percent(time.seconds() / e.path.time.seconds())});
  }
  return html_table({{"limited by"}, {"time", true}, {"share", true}}, rows);
}

std::string kernel_table(const PlanView& view, const std::vector<KernelRow>& kernels) {
  constexpr std::size_t kMost = 12;
  const Seconds all = view.explanation.prediction.makespan.seconds();
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(kMost, kernels.size()); ++i) {
    const KernelRow& k = kernels[i];
    rows.push_back({fmt::format("{}", i + 1), k.name, human(FlopsPerSecond(k.flops / k.each.value())),
                    fmt::format("{:.4g}", k.flops / k.bytes), human(k.each), human(k.total),
                    in_percent(k.total / all)});
  }
  return html_table({{"", true},
                     {"kernel"},
                     {"FLOP/s", true},
                     {"FLOPs/byte", true},
                     {"each", true},
                     {"in all", true},
                     {"of iteration", true}},
                    rows);
}

ReportSection assumptions(const PlanView& view) {
  constexpr std::size_t kMost = 200;
  const auto& [plan, inputs, cluster] = view.explanation.plan;
  ReportSection out{.title = "What is assumed"};
  for (std::string note : pricing_notes(inputs, cluster, view.explanation.prediction.program))
    out.paragraphs.push_back(capitalised(std::move(note)) + '.');
  const std::vector<std::string> approximations = planner::approximations_of(plan.inputs.model);
  if (!approximations.empty()) out.html += html_details("How the model is approximated", approximations);
  std::vector<std::string> assumed = assumed_numbers(plan.inputs.cluster);
  const std::size_t all = assumed.size();
  if (all == 0) {
    out.paragraphs.emplace_back("No number of this cluster is marked as assumed.");
    return out;
  }
  out.paragraphs.push_back(fmt::format(
      "{} numbers of the cluster file are assumptions, not measurements or datasheet values. A conclusion that depends "
      "on one of them is no better than the assumption.",
      all));
  if (all > kMost) assumed.resize(kMost);
  out.html += html_details(all > kMost ? fmt::format("The first {} of them", kMost) : "All of them", assumed);
  return out;
}

}  // namespace

Report plan_html(const PlanView& view) {
  const Explanation& e = view.explanation;
  const auto& [plan, inputs, cluster] = e.plan;
  Report out{.title = job_text(inputs, cluster),
             .subtitle = workload_text(inputs.workload),
             .tiles = tiles_of(view),
             .lead = {},
             .sections = {},
             .data = {}};
  out.lead = {answer(view), conclusion(e)};
  out.sections.push_back({.title = "The plan", .html = decision_facts(view)});
  out.sections.push_back({.title = "Timeline", .figures = timeline_figures(view)});
  out.sections.back().figures.push_back(layer_figure(view));
  const auto section = [&](Figure figure, std::string html = "") {
    std::string title = figure.title;
    out.sections.push_back({.title = std::move(title), .figures = {std::move(figure)}, .html = std::move(html)});
  };
  section(memory_figure(view));
  section(path_figure(view), bottleneck_table(e));
  section(sensitivity_figure(view));
  const std::vector<KernelRow> kernels = kernels_of(view);
  section(roofline_figure(view, kernels), kernel_table(view, kernels));
  if (auto figure = candidates_figure(view)) section(std::move(*figure));
  if (auto figure = alternatives_figure(view)) section(std::move(*figure));
  out.sections.push_back(assumptions(view));
  out.data = explain_data(e);
  return out;
}

}  // namespace moeplan::cli
