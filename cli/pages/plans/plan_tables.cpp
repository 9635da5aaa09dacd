#include "cli/pages/plans/plan_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/page_parts.hpp"
#include "model/text/unit_text.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/candidate/stage_layout.hpp"

namespace moeplan::cli {

namespace {

/// Why `other` is slower than `best`: the operation classes in which its binding rank spends more time, in descending
/// order, and the largest gain. Including idle time, the differences of all classes sum to that of the makespan.
std::string why(const planner::Prediction& other, const planner::Prediction& best) {
  struct Loss {
    std::string_view name;
    Seconds time;
  };
  std::vector<Loss> losses;
  for (const auto& [op_class, name] : kOpClassNames) {
    losses.push_back({name, other.binding.visible(op_class) - best.binding.visible(op_class)});
  }
  losses.push_back({"idle", other.binding.idle - best.binding.idle});
  std::stable_sort(losses.begin(), losses.end(), [](const Loss& a, const Loss& b) { return a.time > b.time; });
  std::string text;
  const Seconds total = other.makespan.seconds() - best.makespan.seconds();
  for (std::size_t i = 0; i < 3; ++i) {
    if (losses[i].time <= Seconds(0) || losses[i].time < 0.05 * total) break;
    text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", losses[i].name, human(losses[i].time));
  }
  if (text.empty()) return "as fast within rounding";
  // The largest gain, if it is a considerable fraction of the largest loss.
  const Loss& gain = losses.back();
  if (gain.time < Seconds(0) && -gain.time > 0.1 * losses.front().time) {
    text += fmt::format("; but {} -{}", gain.name, human(-gain.time));
  }
  return text;
}

/// The layers of a stage, counted: "16 layers, embedding".
std::string held_text(const std::vector<planner::StagePart>& parts, std::size_t stage, const planner::Candidate& c) {
  std::int64_t layers = 0, mtp = 0;
  bool embedding = false, head = false;
  for (const std::size_t p : planner::parts_of(c, static_cast<std::int64_t>(stage))) {
    const planner::StagePart& part = parts[p];
    layers += std::ssize(part.layers);
    mtp += part.mtp_layers;
    embedding = embedding || part.embedding;
    head = head || part.head;
  }
  return fmt::format("{} layer{}{}{}{}", layers, layers == 1 ? "" : "s", embedding ? ", embedding" : "",
                     mtp > 0 ? fmt::format(", {} mtp", mtp) : "", head ? ", head" : "");
}

/// Candidates of one idea have one number, ideas that of the order in which they first occur; empty if each shown
/// candidate is an idea of its own.
std::vector<std::size_t> idea_numbers(const PlanReport& r) {
  std::vector<std::size_t> out;
  std::size_t ideas = 0;
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    const auto first =
        std::find_if(r.result.ranked.begin(), r.result.ranked.begin() + std::ptrdiff_t(i),
                     [&](const auto& e) { return planner::is_same_idea(e.candidate, r.result.ranked[i].candidate); });
    const auto at = static_cast<std::size_t>(first - r.result.ranked.begin());
    out.push_back(at < i ? out[at] : ++ideas);
  }
  return ideas == out.size() ? std::vector<std::size_t>{} : out;
}

double share_of_step(const planner::Prediction& p, Seconds time) {
  return p.makespan > SimTime() ? time / p.makespan.seconds() : 0;
}

/// Strategies of MoE layers with the number of layers that use each, in the order of first use.
std::vector<std::pair<planner::LayerStrategy, std::size_t>> strategies_of(const PlanReport& r) {
  const planner::Candidate& c = r.result.ranked.front().candidate;
  std::vector<std::pair<planner::LayerStrategy, std::size_t>> out;
  for (const std::size_t kind : planner::routing_kinds(r.inputs.model, r.inputs.workload.recorded.has_value())) {
    const planner::LayerStrategy of_layer = planner::LayerStrategy::of(c, kind);
    const auto known = std::find_if(out.begin(), out.end(), [&](const auto& s) { return s.first == of_layer; });
    if (known == out.end())
      out.emplace_back(of_layer, 1);
    else
      ++known->second;
  }
  return out;
}

}  // namespace

std::string what_is_new(const planner::Candidate& c, const planner::Candidate& best) {
  std::string out = fmt::format("{} chunk{}, {} all-to-all", c.pipeline_degree, c.pipeline_degree == 1 ? "" : "s",
                                c.all_to_all.name());
  if (!c.runs.empty()) out = planner::strategies_text(c.runs);
  if (c.codec != CodecPair{}) out += ", codec " + codec_pair_name(c.codec);
  if (c.order == planner::OperationOrder::Searched) out += ", a searched order of operations";
  if (c.micro_batch != best.micro_batch) out += fmt::format(", micro batch {}", c.micro_batch);
  if (!(c.recompute == best.recompute)) out += fmt::format(", recompute {}", name_of(c.recompute));
  return out;
}

std::string stage_table(const PlanReport& r) {
  const planner::Prediction& p = r.predictions.front();
  if (p.stages.size() < 2) return "";
  const planner::Candidate& best = r.result.ranked.front().candidate;
  const std::vector<planner::StagePart> parts = planner::stage_parts(r.inputs.model, r.inputs.workload, best);
  constexpr const char* kRow = "  {:<7} {:<34} {:>10} {:>10} {:>8} {:>8}  {:>11}\n";
  std::string out = '\n' + fmt::format(kRow, "stage", "holds", "computing", "exposed", "", "bubble", "memory, GiB");
  std::string row;
  std::size_t first = 0;
  const auto add = [&](std::size_t last) {
    const std::string name = last == first ? fmt::format("{}", first + 1) : fmt::format("{}-{}", first + 1, last + 1);
    out += fmt::format("  {:<7} {}", name, row);
  };
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const RankTime& t = p.stages[s];
    const std::string next =
        fmt::format("{:<34} {:>10} {:>10} {:>8} {:>8}  {:>11}\n", held_text(parts, s, best), human(t.compute),
                    human(t.exposed_communication), in_percent(share_of_step(p, t.exposed_communication)),
                    in_percent(share_of_step(p, t.waiting)), gib(r.stage_memory[s].total()));
    if (s > 0 && next != row) {
      add(s - 1);
      first = s;
    }
    row = next;
  }
  add(p.stages.size() - 1);
  return out + labelled("", "(bubble: the part of the step in which the stage waits for others)", 6);
}

std::string strategy_table(const PlanReport& r) {
  const auto strategies = strategies_of(r);
  if (strategies.empty()) return "";
  constexpr const char* kRow = "  {:>10}  {:<14} {:<14} {:>6}  {}\n";
  std::string out = '\n' + fmt::format(kRow, "MoE layers", "schedule", "all-to-all", "chunks", "codec");
  for (const auto& [s, layers] : strategies)
    out += fmt::format(kRow, layers, s.schedule.name(), s.all_to_all.name(), s.pipeline_degree,
                       s.codec == CodecPair{} ? "none" : codec_pair_name(s.codec));
  return out;
}

std::string candidate_table(const PlanReport& r) {
  bool has_sequence_parallel = false, is_v = false, overlaps = false, is_reordered = false;
  const std::vector<std::size_t> ideas = idea_numbers(r);
  const int idea_width = ideas.empty() ? 0 : 5;
  constexpr const char* kRow =
      "  {:>2}{:>{}}  {:<13} {:>5} {:>4} {:>3} {:>4} {:>4} {:>4} {:>5} {:>8} {:>7} {:>7} {:>7} {:>6}\n";
  std::string out = '\n' + fmt::format(kRow, "#", ideas.empty() ? "" : "idea", idea_width, "schedule", "pp", "tp", "cp",
                                       "dp", "ep", "etp", "micro", "step", "", "exposed", "bubble", "memory");
  out += fmt::format(kRow, "", "", idea_width, "", "", "", "", "", "", "", "batch", "time", "", "comm.", "", "GiB");
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    const planner::Prediction& p = r.predictions[i];
    const planner::Candidate& c = r.result.ranked[i].candidate;
    const Degrees& d = c.degrees;
    const double more = p.makespan.seconds() / r.predictions.front().makespan.seconds() - 1;
    const bool is_folded = c.pipeline == planner::PipelineShape::V;
    const std::string pp = fmt::format("{}{}{}", d.pp, c.virtual_stages > 1 ? fmt::format("x{}", c.virtual_stages) : "",
                                       is_folded ? "v" : "");
    is_v = is_v || is_folded;
    const std::string tp = fmt::format("{}{}", d.tp, c.sequence_parallel ? "s" : "");
    has_sequence_parallel = has_sequence_parallel || c.sequence_parallel;
    const bool is_searched = c.order == planner::OperationOrder::Searched;
    const std::string schedule = c.schedule.name() + (c.ep_overlap ? "+" : "") + (is_searched ? "~" : "");
    overlaps = overlaps || c.ep_overlap;
    is_reordered = is_reordered || is_searched;
    out += fmt::format(
        kRow, i + 1, ideas.empty() ? "" : fmt::format("{}", ideas[i]), idea_width, schedule, pp, tp, d.cp, d.dp, d.ep,
        d.esp, c.micro_batch, human(p.makespan.seconds()), i == 0 ? "" : signed_percent(more),
        in_percent(share_of_step(p, p.binding.exposed_communication)), in_percent(p.bubble()), gib(p.memory.total()));
  }
  if (has_sequence_parallel) out += "      (tp s: with sequence parallelism; pp n x m: m parts of the model a stage)\n";
  if (is_v) out += "      (pp n x 2 v: two parts a stage, in a V)\n";
  if (overlaps) out += "      (schedule +: its exchanges overlap the neighbouring microbatch)\n";
  if (is_reordered) out += "      (schedule ~: with its operations in the order that the search of orders found)\n";
  if (!ideas.empty())
    out += labelled(
        "", "(idea: candidates of one number differ in micro batch, pipeline, overlap or sequence parallelism)", 6);
  if (r.predictions.size() == 1) return out;
  out += "\n  Why the others are slower (time on the binding rank of each, against that of #1)\n";
  for (std::size_t i = 1; i < r.predictions.size(); ++i) {
    const planner::Prediction& other = r.predictions[i];
    const std::string stage = stage_text(other.program, other.binding.rank);
    out += labelled(fmt::format("{:>2}", i + 1),
                    (stage.empty() ? "" : stage + ": ") + why(other, r.predictions.front()), 6);
  }
  return out;
}

std::string tutel_table(const planner::TutelDictionary& d) {
  std::string out =
      '\n' + in_lines(fmt::format("Tutel's dictionary, one MoE layer with tutel_r*: an expert's rows of a source in "
                                  "windows of {}, at most {} trials each",
                                  d.window, d.most_trials));
  out += fmt::format("\n  {:>7} {:>9} {:>9} {:>7}  {:<11} {:>12} {:>7}\n", "key", "capacity", "adaptive", "degree",
                     "all-to-all", "layer", "trials");
  for (const planner::TutelEntry& e : d.entries) {
    out += fmt::format("  {:>7} {:>9} {:>9} {:>7}  {:<11} {:>12} {:>7}\n", e.key, e.capacity, e.best.r,
                       e.best.pipeline_degree, e.best.all_to_all, human(e.time.seconds()), e.trials);
  }
  return out;
}

}  // namespace moeplan::cli
