#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/size_report.hpp"
#include "model/text/origins.hpp"
#include "model/text/unit_text.hpp"
#include "planner/size/job_sizes.hpp"

namespace moeplan::cli {

namespace {

using planner::TriedSize;

/// Four digits with the letter of the size: "15 T", "612.5 B", "3.2 M".
std::string with_letter(double number) {
  constexpr std::array<std::pair<double, const char*>, 4> kLetters{{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}};
  for (const auto& [unit, letter] : kLetters) {
    if (number >= unit) return fmt::format("{:.4g} {}", number / unit, letter);
  }
  return fmt::format("{:.4g}", number);
}

std::string tokens_text(double tokens) { return with_letter(tokens) + " tokens"; }

/// NICs are known by their Gb/s.
std::string nic_text(BytesPerSecond rate) { return fmt::format("{:.6g} Gbps", rate.value() / 1.25e8); }

std::string target_text(const SizeTarget& t) {
  if (t.gpus) {
    const std::string job = t.tokens ? fmt::format(" for {}", tokens_text(*t.tokens)) : "";
    return fmt::format("{} GPUs at hand{}", *t.gpus, job);
  }
  const std::string rate = tokens_text(*t.tokens_per_day) + " a day";
  if (!t.tokens) return rate;
  return fmt::format("{} in {:.4g} days: {}", tokens_text(*t.tokens), *t.tokens / *t.tokens_per_day, rate);
}

/// Degrees above 1, and the micro batch: "pp 4x8 tp 2s dp 128 ep 16 mb 1".
std::string degrees_column(const planner::Candidate& c) {
  const Degrees& d = c.degrees;
  std::string out;
  if (d.pp > 1)
    out += c.virtual_stages > 1 ? fmt::format("pp {}x{} ", d.pp, c.virtual_stages) : fmt::format("pp {} ", d.pp);
  if (d.tp > 1) out += fmt::format("tp {}{} ", d.tp, c.sequence_parallel ? "s" : "");
  if (d.cp > 1) out += fmt::format("cp {} ", d.cp);
  if (d.dp > 1) out += fmt::format("dp {} ", d.dp);
  if (d.ep > 1) out += fmt::format("ep {} ", d.ep);
  if (d.esp > 1) out += fmt::format("etp {} ", d.esp);
  return out + fmt::format("mb {}", c.micro_batch);
}

std::string optional_text(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string size_line(const SizeReport& r, const SizedCluster& c, const TriedSize& t) {
  const bool is_answer = c.sizing.gpus == t.gpus;
  const std::string head = fmt::format("{} {:>5} {:>7}  ", is_answer ? '>' : ' ', c.nodes(t.gpus), t.gpus);
  if (!t.best) return head + "no plan: " + t.no_plan + '\n';
  const SizeFigures f = size_figures(r.target, c.price, t);
  return head + fmt::format("{:<38} {:>9} {:>8.0f} {:>7} {:>6} {:>9}\n", degrees_column(t.best->candidate),
                            human(t.best->makespan->seconds()), t.tokens_per_s / static_cast<double>(t.gpus),
                            with_letter(f.tokens_per_day), optional_text(f.days, "{:.1f}"),
                            optional_text(f.cost_per_million_tokens, "{:.4g}"));
}

/// What is counted where fewer or more are tried.
std::string counted(const SizedCluster& c) {
  return planner::largest_part(c.inputs.cluster) > 0 ? "whole racks or 1, 2, 4, ... GPUs of half a rack"
                                                     : "whole nodes";
}

/// How the answer was found, and what that proves.
std::string sizes_note(const SizeReport& r, const SizedCluster& c) {
  const planner::Sizing& s = c.sizing;
  if (r.target.gpus) {
    return s.gpus ? labelled("", "> the fastest of the largest numbers of " + counted(c), 2)
                  : labelled("", fmt::format("no number of {} up to this has a plan", counted(c)), 2);
  }
  if (!s.gpus) {
    return labelled(
        "",
        fmt::format("no size that was tried reaches the target; the largest allowed is {} GPUs (--max-gpus), "
                    "and an iteration has {} sequences to divide among them (--global-batch)",
                    r.most_gpus, c.inputs.workload.global_batch),
        2);
  }
  const std::string excluded =
      s.excluded == 0
          ? ""
          : fmt::format("; {} other{} cannot divide the model and the batch of {} sequences (--global-batch)",
                        s.excluded, s.excluded == 1 ? "" : "s", c.inputs.workload.global_batch);
  if (s.untried > 0) {
    return labelled(
        "",
        fmt::format("> the fewest found among {} sizes; {} that are smaller were not tried (--most-tried){}",
                    s.tried.size(), s.untried, excluded),
        2);
  }
  const std::string sizes =
      s.tried.size() == 1 ? "the one size that was" : fmt::format("any of the {} sizes that were", s.tried.size());
  return labelled("",
                  fmt::format("> the fewest, to {:.0f}%: fewer {} miss the target, or would need more tokens/s/"
                              "GPU than {} tried{}",
                              100 * planner::kSizeResolution, counted(c), sizes, excluded),
                  2);
}

std::string cluster_table(const SizeReport& r, const SizedCluster& c) {
  std::string out =
      fmt::format("\n  {}, {} x {} per node{}\n\n", c.inputs.cluster.name, c.gpus_per_node, c.inputs.cluster.gpu.name,
                  c.price ? fmt::format(", {:g} per GPU-hour", *c.price) : ", without a price");
  if (c.sizing.tried.empty()) {
    return out + fmt::format("  no number of {} up to {} GPUs divides the model and {} sequences\n", counted(c),
                             r.target.gpus.value_or(r.most_gpus), c.inputs.workload.global_batch);
  }
  out += fmt::format("  {:>5} {:>7}  {:<38} {:>9} {:>8} {:>7} {:>6} {:>9}\n", "nodes", "GPUs", "plan", "step",
                     "tokens/s", "tokens", "days", "a million");
  out += fmt::format("  {:>5} {:>7}  {:<38} {:>9} {:>8} {:>7} {:>6} {:>9}\n", "", "", "", "", "/GPU", "a day", "",
                     "tokens");
  for (const TriedSize& t : c.sizing.tried) out += size_line(r, c, t);
  return out + sizes_note(r, c);
}

/// The highest throughput of the answer's GPUs with any of the NICs, in tokens/s. Each has tried this size first.
double fastest_of_nics(const SizeReport& r) {
  double most = 0;
  for (const NicSizing& n : r.nics) most = std::max(most, n.sizing.at(*r.answer().sizing.gpus)->tokens_per_s);
  return most;
}

std::string nic_table(const SizeReport& r) {
  if (r.nics.empty()) return "";
  const SizedCluster& c = r.answer();
  const std::int64_t gpus = *c.sizing.gpus;
  std::string out = fmt::format("\n  The same with other NICs\n\n  {:>12}  {:>22} {:>9} {:>8} {:>8}\n", "NICs",
                                fmt::format("step of {} GPUs", gpus), "tokens/s", "", r.target.gpus ? "" : "fewest");
  out += fmt::format("  {:>12}  {:>22} {:>9} {:>8} {:>8}\n", "", "", "/GPU", "", r.target.gpus ? "" : "GPUs");
  const double most = fastest_of_nics(r);
  for (const NicSizing& n : r.nics) {
    const TriedSize& t = *n.sizing.at(gpus);
    const std::string fewest = n.sizing.gpus ? fmt::format("{}", *n.sizing.gpus) : "none found";
    out +=
        fmt::format("{} {:>12}  {:>22} {:>9.0f} {:>8} {:>8}{}\n", &n == enough_nics(r) ? '>' : ' ', nic_text(n.rate),
                    t.best ? human(t.best->makespan->seconds()) : "no plan", t.tokens_per_s / static_cast<double>(gpus),
                    t.tokens_per_s < most ? signed_percent(t.tokens_per_s / most - 1) : "best",
                    r.target.gpus ? "" : fewest, n.is_own ? "  as in the cluster's file" : "");
  }
  return out +
         labelled("", fmt::format("> the lowest of these bandwidths within {} of the best", in_percent(r.nics_within)),
                  2);
}

std::string answer_lines(const SizeReport& r) {
  if (!r.best) return labelled("answer", "none: no cluster reaches it; the tables say why");
  const SizedCluster& c = r.answer();
  const TriedSize& t = *c.sizing.answer();
  const SizeFigures f = size_figures(r.target, c.price, t);
  const std::int64_t nodes = c.nodes(t.gpus);
  const std::string of_nodes = t.gpus < c.gpus_per_node ? fmt::format("of a node's {}", c.gpus_per_node)
                                                        : fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
  std::string text = fmt::format("{} x {} of {} ({}): {} a day", t.gpus, c.inputs.cluster.gpu.name,
                                 c.inputs.cluster.name, of_nodes, tokens_text(f.tokens_per_day));
  if (f.days) text += fmt::format(", {:.4g} days", *f.days);
  if (f.cost_per_million_tokens) text += fmt::format(", {:.4g} a million tokens", *f.cost_per_million_tokens);
  if (f.cost) text += fmt::format(", {} in all", with_letter(*f.cost));
  std::string out = labelled("answer", text);
  const NicSizing* enough = enough_nics(r);
  if (!enough) return out;
  return out + labelled("NICs", fmt::format("{} are enough: within {} of the best of {} to {}", nic_text(enough->rate),
                                            in_percent(r.nics_within), nic_text(r.nics.front().rate),
                                            nic_text(r.nics.back().rate)));
}

/// The answer's plan and its memory.
std::string plan_lines(const SizeReport& r) {
  if (!r.best) return "";
  const SizedCluster& c = r.answer();
  const TriedSize& t = *c.sizing.answer();
  const Bytes peak = t.best->memory.total(), capacity = c.inputs.cluster.gpu.memory;
  return labelled("plan",
                  plan_text(t.best->candidate) + (r.framework ? fmt::format(" | {}", r.framework->text()) : "")) +
         labelled("memory", fmt::format("{} of {} GiB per GPU ({:.0f}%){}", gib(peak), gib(capacity),
                                        100 * (peak / capacity), tightness_text(peak, capacity, c.inputs.workload)));
}

std::string workload_line(const SizeReport& r) {
  const Workload& w = r.clusters.front().inputs.workload;
  std::string text = fmt::format("{}: {}, {} sequences of {} tokens, {}", w.name, name_of<Mode>(kModeNames, w.mode),
                                 w.global_batch, w.sequence_length, precision_text(w));
  if (w.mode == Mode::Train) {
    text += fmt::format(", {} with ZeRO {}, {} recomputation", name_of<Optimizer>(kOptimizerNames, w.optimizer),
                        w.zero_stage, w.recompute == Recompute::None ? "no" : recompute_text(w));
  }
  return labelled("workload", text);
}

std::string size_notes(const SizeReport& r) {
  std::string out = "\n";
  out +=
      r.target.availability < 1
          ? labelled("", fmt::format("{} of the time is taken to make progress", in_percent(r.target.availability)), 2)
          : labelled("", "all of the time is taken to make progress: --availability 0.9 leaves room for failures", 2);
  out += labelled("", "steps are simulated with the fastest plan of a search, priced by the clusters' files:", 2);
  for (const SizedCluster& c : r.clusters) {
    out += labelled("",
                    fmt::format("{}: {} of its numbers are assumed, not measured", c.inputs.cluster.name,
                                assumed_numbers(c.documents.cluster).size()),
                    4);
    out += labelled("", "accuracy " + accuracy_text(c.inputs), 4);
    if (c.inputs.cluster.collectives.empty() || r.nics.empty()) continue;
    out += labelled("", "its collectives are measured, and do not follow the bandwidth of the NICs", 4);
  }
  return out;
}

}  // namespace

SizeFigures size_figures(const SizeTarget& target, const std::optional<double>& price, const TriedSize& size) {
  const double per_s = size.tokens_per_s * target.availability;
  SizeFigures out{.tokens_per_day = per_s * 86'400};
  if (!(per_s > 0)) return out;
  if (price) out.cost_per_million_tokens = *price * static_cast<double>(size.gpus) / 3600 / per_s * 1e6;
  if (!target.tokens) return out;
  out.days = *target.tokens / out.tokens_per_day;
  if (price) out.cost = *out.cost_per_million_tokens * *target.tokens / 1e6;
  return out;
}

std::optional<std::size_t> best_cluster(const SizeTarget& target, const std::vector<SizedCluster>& clusters) {
  std::vector<std::size_t> reaching;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    if (clusters[i].sizing.answer()) reaching.push_back(i);
  }
  if (reaching.empty()) return std::nullopt;
  const bool has_prices =
      std::all_of(reaching.begin(), reaching.end(), [&](std::size_t i) { return clusters[i].price.has_value(); });
  const auto rank = [&](std::size_t i) {
    const TriedSize& t = *clusters[i].sizing.answer();
    if (target.gpus) return -t.tokens_per_s;
    if (has_prices) return *size_figures(target, clusters[i].price, t).cost_per_million_tokens;
    return static_cast<double>(t.gpus);
  };
  return *std::min_element(reaching.begin(), reaching.end(),
                           [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
}

const NicSizing* enough_nics(const SizeReport& r) {
  if (r.nics.empty()) return nullptr;
  const double least = (1 - r.nics_within) * fastest_of_nics(r);
  const auto enough = std::find_if(r.nics.begin(), r.nics.end(), [&](const NicSizing& n) {
    return n.sizing.at(*r.answer().sizing.gpus)->tokens_per_s >= least;
  });
  return enough == r.nics.end() ? nullptr : &*enough;
}

std::string size_page(const SizeReport& r) {
  std::string out = fmt::format("{}: {}\n", r.clusters.front().inputs.model.name, target_text(r.target));
  out += answer_lines(r) + plan_lines(r) + workload_line(r);
  for (const SizedCluster& c : r.clusters) out += cluster_table(r, c);
  return out + nic_table(r) + size_notes(r);
}

}  // namespace moeplan::cli
