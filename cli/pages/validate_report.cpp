#include "cli/pages/validate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/pages/text/wrapping.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

std::int64_t machines(const Hardware& h) { return std::ssize(std::set<std::string>(h.hosts.begin(), h.hosts.end())); }

std::string weights_text(const runtime::ValueErrors& v, bool is_step) {
  if (!v.has_weights) {
    return fmt::format("weights' gradients {}not compared (too large for the reference, or of a part of its tokens)",
                       is_step ? "and updates " : "");
  }
  return fmt::format("{:.1e} (weights' gradients{}", v.weight_gradient,
                     is_step ? fmt::format(", summed over replicas), {:.1e} (updated weights)", v.update) : ")");
}

std::string values_text(const ValidatedCase& c) {
  const runtime::ValueErrors& v = c.result.values;
  return fmt::format("{}: differ from the reference by {:.1e} (output), {:.1e} (gradients), {}; {} rows compared",
                     c.result.is_right ? "right" : "WRONG", v.output, v.gradient, weights_text(v, c.layer.is_step),
                     v.rows);
}

/// What of the layer is executed: "a training step; not attention, norms".
std::string executed_text(const ValidateHead& head, const planner::LayerCase& layer) {
  const bool trains = layer.workload.mode == Mode::Train;
  return fmt::format("{}; neither executed nor predicted: {}",
                     layer.is_step ? "forward, backward, reduction of gradients, optimizer"
                     : trains      ? "forward, backward"
                                   : "forward",
                     fmt::join(head.left_out, ", "));
}

std::string interval_text(const validate::TimePair& t) {
  if (!t.interval) return "-";
  return fmt::format("{} .. {}", human(Seconds(t.interval->low)), human(Seconds(t.interval->high)));
}

/// The error of the prediction, and whether it exceeds the allowed one.
std::string verdict_text(const ValidateHead& head, const validate::TimePair& layer) {
  const double ratio = layer.measured / layer.predicted;
  std::string out = fmt::format("the layer takes {:.3g} times the predicted time; ", ratio);
  if (head.max_error) {
    out += fmt::format("--max-error {:.3g}% {}", 100 * *head.max_error,
                       std::abs(layer.error()) > *head.max_error ? "is exceeded" : "is kept");
  } else {
    out += "without --max-error the exit code does not depend on it";
  }
  constexpr double kFarOff = 2;
  if (ratio < kFarOff && ratio > 1 / kFarOff) return out;
  return out + fmt::format("; is {} a measured profile of this machine (moeplan profile --backend {})?", head.cluster,
                           head.hardware.backend);
}

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string head_text(const ValidateHead& head, const planner::LayerCase& layer) {
  const Degrees& d = layer.candidate.degrees;
  std::string out = fmt::format("{} on {}\n", head.source, head.cluster);
  out += labelled("layer",
                  planner::layer_text(layer) + (head.scale > 1 ? fmt::format(" (scaled by {})", head.scale) : ""));
  out += labelled("ranks", fmt::format("{}: ep {} etp {} tp {}{}", layer.ranks(), d.ep, d.esp, d.tp,
                                       layer.is_step ? fmt::format(" dp {} edp {}", d.dp, d.edp) : ""));
  return out + labelled("executed on", hardware_text(head.hardware));
}

planner::Json time_json(const validate::TimePair& t) {
  return {{"predicted_s", t.predicted.value()},
          {"measured_s", t.measured.value()},
          {"measured_low_s", t.interval ? planner::Json(t.interval->low) : planner::Json(nullptr)},
          {"measured_high_s", t.interval ? planner::Json(t.interval->high) : planner::Json(nullptr)},
          {"error", t.measured.value() > 0 ? planner::Json(t.error()) : planner::Json(nullptr)}};
}

planner::Json head_json(const ValidateHead& head, const planner::LayerCase& l) {
  return {{"schema_version", planner::kJsonSchemaVersion},
          {"source", head.source},
          {"cluster", head.cluster},
          {"backend", head.hardware.backend},
          {"hardware",
           {{"processor", head.hardware.processor},
            {"cores", head.hardware.cores},
            {"machines", machines(head.hardware)},
            {"clocks", head.hardware.clocks},
            {"shared", l.ranks() > head.hardware.cores * machines(head.hardware)}}},
          {"command", head.command},
          {"ranks", l.ranks()},
          {"scale", head.scale},
          {"layer_shape",
           {{"num_experts", l.moe.num_experts},
            {"top_k", l.moe.top_k},
            {"hidden_size", l.hidden_size},
            {"ffn_size", l.moe.expert.hidden_size},
            {"gated", l.moe.expert.gated},
            {"shared_ffn_size", l.moe.shared.hidden_size},
            {"tokens_per_rank", l.tokens_of_source()},
            {"dtype", name_of<Dtype>(kDtypeNames, l.workload.dtype)}}}};
}

/// A number of a check; null if it is not finite.
planner::Json finite(double v) { return std::isfinite(v) ? planner::Json(v) : planner::Json(nullptr); }

planner::Json case_json(const ValidatedCase& c) {
  planner::Json out = {{"plan", planner::decision_json(c.layer.candidate)}};
  const runtime::ValueErrors& v = c.result.values;
  out["values_ok"] = c.result.is_right;
  out["values"] = {{"output", finite(v.output)},
                   {"gradient", finite(v.gradient)},
                   {"weight_gradient", v.has_weights ? finite(v.weight_gradient) : planner::Json(nullptr)},
                   {"update", v.has_weights && c.layer.is_step ? finite(v.update) : planner::Json(nullptr)},
                   {"rows", v.rows}};
  out["runs"] = c.result.runs.size();
  out["stopped_by"] = c.result.stopped_by;
  out["layer"] = time_json(c.validation.layer);
  planner::Json& operations = out["operations"] = planner::Json::array();
  for (const validate::ClassPair& p : c.validation.classes) {
    planner::Json item = {{"block", p.block}, {"class", name_of<OpClass>(kOpClassNames, p.op_class)}};
    item.update(time_json(p.time));
    operations.push_back(std::move(item));
  }
  out["mape"] = c.validation.mape;
  out["r2"] = c.validation.r2;
  return out;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The times of the executed cases.
struct Times {
  std::vector<double> predicted, measured;
  explicit Times(const std::vector<ValidatedCase>& cases) {
    for (const ValidatedCase& c : cases) {
      if (!c.was_executed()) continue;
      predicted.push_back(c.validation.layer.predicted.value());
      measured.push_back(c.validation.layer.measured.value());
    }
  }
  [[nodiscard]] double mape() const {
    double sum = 0;
    for (std::size_t i = 0; i < measured.size(); ++i) sum += std::abs(predicted[i] / measured[i] - 1);
    return measured.empty() ? 0 : sum / static_cast<double>(measured.size());
  }
};

}  // namespace

std::string hardware_text(const Hardware& h) {
  const std::int64_t ranks = std::ssize(h.hosts), places = h.cores * machines(h);
  const bool has_gpus = h.backend == "nccl";
  const char* unit = has_gpus ? "GPU" : "core";
  std::string shared = fmt::format("; a {} for each rank and more", unit);
  if (ranks > places)
    shared = has_gpus ? "; ranks share a GPU" : fmt::format("; {} ranks share {} cores", ranks, places);
  const std::string clocks = h.clocks.empty() ? "" : "; " + h.clocks;
  return fmt::format("{} ranks, {} back end, {} machine{}, {} {}s of {}{}{}", ranks, h.backend, machines(h),
                     machines(h) == 1 ? "" : "s", h.cores, unit, h.processor, shared, clocks);
}

std::string validate_page(const ValidateHead& head, const ValidatedCase& c) {
  std::string out = head_text(head, c.layer);
  out += labelled("run", strategy_text(planner::LayerStrategy::of(c.layer.candidate)));
  out += labelled("executed", executed_text(head, c.layer));
  out += labelled("values", values_text(c));
  const validate::TimePair& layer = c.validation.layer;
  out += labelled("layer", fmt::format("predicted {}, measured {} ({}; {} runs, {}): error {}", human(layer.predicted),
                                       human(layer.measured),
                                       layer.interval ? interval_text(layer) : "too few runs for an interval",
                                       c.result.runs.size(), c.result.stopped_by, percent(layer.error())));
  out += labelled("verdict", verdict_text(head, layer));
  constexpr const char* kRow = "  {:<22} {:<18} {:>9} {:>9} {:>8}  {}\n";
  out += '\n' + fmt::format(kRow, "block", "class", "predicted", "measured", "error", "95% of the median");
  for (const validate::ClassPair& p : c.validation.classes) {
    out += fmt::format(kRow, p.block, name_of<OpClass>(kOpClassNames, p.op_class), human(p.time.predicted),
                       human(p.time.measured), p.time.measured.value() > 0 ? percent(p.time.error()) : "-",
                       interval_text(p.time));
  }
  return out + fmt::format("\n  mean absolute error of the classes {:.1f}%, r2 of single operations {:.3f}\n",
                           100 * c.validation.mape, c.validation.r2);
}

std::string validate_json(const ValidateHead& head, const ValidatedCase& c) {
  planner::Json out = head_json(head, c.layer);
  out["step"] = c.layer.is_step;
  out["left_out"] = head.left_out;
  out.update(case_json(c));
  return planner::json_text(out);
}

SuiteStatistics suite_statistics(const std::vector<ValidatedCase>& cases) {
  const Times times(cases);
  SuiteStatistics out;
  out.executed = std::ssize(times.measured);
  for (const ValidatedCase& c : cases) {
    if (!c.result.failed.empty()) ++out.failed;
    if (c.was_executed() && !c.result.is_right) out.are_right = false;
  }
  if (out.executed == 0) return out;
  out.mape = times.mape();
  out.correlation = validate::rank_correlation(times.predicted, times.measured);
  out.regret = validate::regret(times.predicted, times.measured);
  const auto [least, most] = std::minmax_element(times.measured.begin(), times.measured.end());
  out.spread = *most / *least - 1;
  return out;
}

std::string suite_page(const ValidateHead& head, const std::vector<ValidatedCase>& cases) {
  std::string out = head_text(head, cases.front().layer);
  out += fmt::format("\n  {:<42} {:>12} {:>12}  {:>9}   {}\n", "run", "predicted", "measured", "error", "values");
  for (const ValidatedCase& c : cases) {
    if (!c.result.refused.empty()) {
      out += labelled(strategy_text(planner::LayerStrategy::of(c.layer.candidate)), "refused: " + c.result.refused, 45);
      continue;
    }
    if (!c.result.failed.empty()) {
      out += labelled(strategy_text(planner::LayerStrategy::of(c.layer.candidate)),
                      "FAILED: " + first_line(c.result.failed), 45);
      continue;
    }
    const validate::TimePair& t = c.validation.layer;
    out += fmt::format("  {:<42} {:>12} {:>12}  {:>9}   {}\n",
                       strategy_text(planner::LayerStrategy::of(c.layer.candidate)), human(t.predicted),
                       human(t.measured), percent(t.error()), c.result.is_right ? "right" : "WRONG");
  }
  const SuiteStatistics all = suite_statistics(cases);
  if (all.executed == 0) return out;
  return out +
         fmt::format("\n  mean absolute error {:.1f}%, rank correlation {}, regret of the predicted best {:.1f}%\n",
                     100 * all.mape, all.correlation ? fmt::format("{:.3f}", *all.correlation) : "-", 100 * all.regret);
}

std::string suite_json(const ValidateHead& head, const std::vector<ValidatedCase>& cases) {
  planner::Json out = head_json(head, cases.front().layer);
  planner::Json list = planner::Json::array(), refused = list, failed = list;
  bool right = true;
  for (const ValidatedCase& c : cases) {
    if (!c.result.refused.empty()) {
      refused.push_back({{"plan", planner::decision_json(c.layer.candidate)}, {"reason", c.result.refused}});
      continue;
    }
    if (!c.result.failed.empty()) {
      failed.push_back({{"plan", planner::decision_json(c.layer.candidate)}, {"reason", c.result.failed}});
      continue;
    }
    list.push_back(case_json(c));
    right &= c.result.is_right;
  }
  out["cases"] = std::move(list);
  out["refused"] = std::move(refused);
  out["failed"] = std::move(failed);
  const Times times(cases);
  out["values_ok"] = right;
  out["mape"] = times.mape();
  out["r2"] = validate::r_squared(times.predicted, times.measured);
  const auto correlation = validate::rank_correlation(times.predicted, times.measured);
  out["rank_correlation"] = correlation ? planner::Json(*correlation) : planner::Json(nullptr);
  out["regret"] = times.measured.empty() ? planner::Json(nullptr)
                                         : planner::Json(validate::regret(times.predicted, times.measured));
  return planner::json_text(out);
}

}  // namespace moeplan::cli
