#include "cuda_runtime/validate/validation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/analysis/trace.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::validate {

namespace {

/// Durations by operation of all blocks in order, mean over ranks, in seconds.
using Durations = std::vector<double>;

struct Named {
  BlockId block;
  std::int32_t operation;
};

std::vector<Named> operations_of(const Program& program) {
  std::vector<Named> out;
  for (const Step& step : program.stages.front()) {
    const auto n = std::ssize(program.blocks[step.block.index()].operations);
    for (std::int32_t o = 0; o < n; ++o) out.push_back({step.block, o});
  }
  return out;
}

/// A wait takes no time of its own: executors report its end, the simulator also how long it lasts.
bool is_wait(const Program& program, const Named& named) {
  return std::holds_alternative<Wait>(program.operation(named.block, named.operation).work);
}

Durations durations_of(const Program& program, const std::vector<Named>& operations, const Timeline& timeline) {
  std::map<std::pair<BlockId, std::int32_t>, std::size_t> index;
  for (std::size_t i = 0; i < operations.size(); ++i) index[{operations[i].block, operations[i].operation}] = i;
  Durations out(operations.size(), 0.0);
  for (const TimelineSpan& s : timeline.spans) {
    if (is_wait(program, {s.block, s.operation})) continue;
    out[index.at({s.block, s.operation})] +=
        (s.end - s.start).seconds().value() / static_cast<double>(program.world_size);
  }
  return out;
}

SimTime nanoseconds(std::int64_t ns) { return SimTime(ns * 1000); }

Timeline timeline_of(const std::vector<Named>& operations, const std::vector<std::vector<RanSpan>>& run) {
  Timeline out;
  out.segment = out.classes = 1;
  for (std::size_t r = 0; r < run.size(); ++r) {
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const RanSpan& s = run[r][i];
      out.spans.push_back(
          {RankId(r), operations[i].block, operations[i].operation, -1, nanoseconds(s.start), nanoseconds(s.end)});
      out.makespan = std::max(out.makespan, nanoseconds(s.end));
    }
  }
  out.joined_end = out.makespan;
  out.segment = out.classes = std::ssize(run);
  sort_spans(out.spans);
  return out;
}

TimePair pair_of(double predicted, std::vector<double> measured) {
  constexpr double kConfidence = 0.95;
  return {Seconds(predicted), Seconds(profiler::median(measured)), profiler::median_interval(measured, kConfidence)};
}

/// Ranks of values in ascending order; ties get their mean rank.
std::vector<double> places(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j) out[order[j]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return out;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

CaseValidation compare(const Program& program, const Cluster& cluster, const ExecutionResult& result) {
  const std::vector<Named> operations = operations_of(program);
  CaseValidation out;
  out.predicted = sim::simulate(program, cluster, {.use_symmetry = false});
  const Durations predicted = durations_of(program, operations, out.predicted);

  std::vector<Timeline> runs;
  std::vector<double> makespans;
  std::vector<Durations> measured;  // by execution
  for (const auto& run : result.runs) {
    runs.push_back(timeline_of(operations, run));
    makespans.push_back(runs.back().makespan.seconds().value());
    measured.push_back(durations_of(program, operations, runs.back()));
  }
  out.layer = pair_of(out.predicted.makespan.seconds().value(), makespans);
  std::size_t middle = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const double m = out.layer.measured.value();
    if (std::abs(makespans[i] - m) < std::abs(makespans[middle] - m)) middle = i;
  }
  out.measured = runs[middle];

  std::map<std::pair<BlockId, OpClass>, std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (is_wait(program, operations[i])) continue;
    const auto& [block, operation] = operations[i];
    classes[{block, program.operation(block, operation).op_class}].push_back(i);
  }
  const auto sum = [](const Durations& d, const std::vector<std::size_t>& members) {
    double s = 0;
    for (const std::size_t i : members) s += d[i];
    return s;
  };
  std::vector<double> errors;
  for (const auto& [key, members] : classes) {
    std::vector<double> samples;
    for (const Durations& d : measured) samples.push_back(sum(d, members));
    const TimePair pair = pair_of(sum(predicted, members), std::move(samples));
    out.classes.push_back({program.blocks[key.first.index()].name, key.second, pair});
    if (pair.measured.value() > 0) errors.push_back(std::abs(pair.error()));
  }
  out.mape = errors.empty() ? 0 : mean(errors);

  std::vector<double> medians;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    std::vector<double> samples;
    for (const Durations& d : measured) samples.push_back(d[i]);
    medians.push_back(profiler::median(std::move(samples)));
  }
  out.r2 = r_squared(predicted, medians);
  return out;
}

double r_squared(const std::vector<double>& predicted, const std::vector<double>& measured) {
  if (measured.empty()) return 0;
  const double m = mean(measured);
  double left = 0, all = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    left += (predicted[i] - measured[i]) * (predicted[i] - measured[i]);
    all += (measured[i] - m) * (measured[i] - m);
  }
  return all > 0 ? 1 - left / all : 0;
}

std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr std::size_t kLeast = 3;
  if (a.size() < kLeast) return std::nullopt;
  const std::vector<double> x = places(a), y = places(b);
  const double mx = mean(x), my = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

double regret(const std::vector<double>& predicted, const std::vector<double>& measured) {
  const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  return measured[static_cast<std::size_t>(chosen)] / *std::min_element(measured.begin(), measured.end()) - 1;
}

std::string overlaid_trace(const Program& program, const CaseValidation& validation) {
  using Json = nlohmann::ordered_json;
  constexpr std::int64_t kApart = 1'000'000;  // exceeds the number of ranks of any executed layer
  Json out = Json::parse(chrome_trace(program, validation.measured));
  const Json predicted = Json::parse(chrome_trace(program, validation.predicted));
  const auto named = [](Json& event, const std::string& kind) {
    if (event.value("name", "") != "process_name") return;
    event["args"]["name"] = kind + " " + event["args"]["name"].get<std::string>();
  };
  for (Json& event : out["traceEvents"]) named(event, "measured");
  for (Json event : predicted["traceEvents"]) {
    if (event.contains("pid")) event["pid"] = event["pid"].get<std::int64_t>() + kApart;
    if (event.contains("id") && event["id"].is_number()) event["id"] = event["id"].get<std::int64_t>() + kApart;
    named(event, "predicted");
    out["traceEvents"].push_back(std::move(event));
  }
  return out.dump(1) + "\n";
}

}  // namespace moeplan::validate
