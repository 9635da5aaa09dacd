#include "cli/pages/replay_report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/pages/text/wrapping.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

using ReplayJson = nlohmann::ordered_json;
using planner::ReplayTable;
using planner::StrategyReplay;

/// The mean over layers and iterations.
Seconds mean_of(Seconds sum, const ReplayTable& table) { return sum / static_cast<double>(table.rows.size()); }

std::string planned_when(const planner::ReplayOptions& o) {
  const std::string from = o.foresight ? "from the loads of the same iteration" : "from the loads of the one before";
  if (o.drift_trigger) return fmt::format("planned where loads have drifted by {:g}, {}", *o.drift_trigger, from);
  return o.interval == 1 ? fmt::format("planned in every iteration of the trace, {}", from)
                         : fmt::format("planned every {} iterations of the trace, {}", o.interval, from);
}

ReplayJson replay_json_of(const StrategyReplay& r) {
  ReplayJson out{{"strategy", r.strategy}};
  out["reason"] = r.infeasibility ? ReplayJson(r.infeasibility->text) : ReplayJson();
  if (r.infeasibility) return out;
  const ReplayTable& t = r.table;
  out["plans"] = t.plans;
  out["contiguous_s"] = t.time_before.value();
  out["time_s"] = t.time.value();
  out["migration_s"] = t.migration.value();
  out["plan_s"] = t.plan.value();
  out["speedup"] = t.speedup();
  out["max_over_mean_before"] = t.mean_max_over_mean_before;
  out["max_over_mean"] = t.mean_max_over_mean;
  out["rb"] = t.mean_rb;
  return out;
}

}  // namespace

std::string replay_page(const ReplayReport& r) {
  const auto& d = r.options.devices;
  std::string out = labelled(
      "trace", fmt::format("{}: {} iterations of {} layers, {} ranks, {} experts",
                           std::filesystem::path(r.trace_file).filename().string(), r.trace.iterations().size(),
                           r.trace.layers(), r.trace.sources(), r.trace.experts()));
  out += labelled("on", fmt::format("{}, {} nodes; a layer of {}; {} redundant a rank", r.inputs.cluster.name,
                                    d.nodes(), r.inputs.model.name, r.redundant_experts));
  out += labelled("plans", planned_when(r.options)) + '\n';
  out += fmt::format("  {:<20} {:>11} {:>11} {:>11} {:>9} {:>9} {:>7} {:>7}\n", "strategy", "a layer", "migration",
                     "planning", "speed-up", "max/mean", "RB", "plans");
  const StrategyReplay* any = nullptr;
  for (const StrategyReplay& s : r.replays) {
    if (s.infeasibility) {
      out += labelled(s.strategy, "no placement: " + s.infeasibility->text, 23);
      continue;
    }
    any = &s;
    const ReplayTable& t = s.table;
    out += fmt::format("  {:<20} {:>11} {:>11} {:>11} {:>8.3f}x {:>9.2f} {:>7.2f} {:>7}\n", s.strategy,
                       human(mean_of(t.time, t)), human(mean_of(t.migration, t)), human(mean_of(t.plan, t)),
                       t.speedup(), t.mean_max_over_mean, t.mean_rb, t.plans);
  }
  if (any)
    out += fmt::format("\n  contiguous experts: {} per layer, loads of ranks max/mean {:.2f}\n",
                       human(mean_of(any->table.time_before, any->table)), any->table.mean_max_over_mean_before);
  return out;
}

std::string replay_json(const ReplayReport& r) {
  ReplayJson strategies = ReplayJson::array();
  for (const StrategyReplay& s : r.replays) strategies.push_back(replay_json_of(s));
  const planner::ReplayOptions& o = r.options;
  const ReplayJson document{{"schema_version", 1},
                            {"cluster", r.inputs.cluster.name},
                            {"model", r.inputs.model.name},
                            {"trace",
                             {{"iterations", r.trace.iterations().size()},
                              {"layers", r.trace.layers()},
                              {"ranks", r.trace.sources()},
                              {"experts", r.trace.experts()}}},
                            {"redundant_experts", r.redundant_experts},
                            {"interval", o.drift_trigger ? ReplayJson() : ReplayJson(o.interval)},
                            {"drift", o.drift_trigger ? ReplayJson(*o.drift_trigger) : ReplayJson()},
                            {"foresight", o.foresight},
                            {"strategies", std::move(strategies)}};
  return document.dump(2) + "\n";
}

}  // namespace moeplan::cli
