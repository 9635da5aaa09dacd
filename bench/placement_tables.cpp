// The tables of docs/placement.md, computed from a routing trace.
//
//   placement_tables TRACE [PART ...]    devices | trace | now | prophet | over_time | breaks even | redundant | exact
//
// Parts are printed in the order given; all by default. Deterministic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "bench/placement_cases.hpp"
#include "model/workload/routing_statistics.hpp"
#include "planner/placement/exact_placement.hpp"
#include "planner/placement/strategies/replay.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::bench;

const PlacementStrategy& strategy(const char* name) { return *find_placement_strategy(name); }

void print_devices() {
  fmt::print(
      "| machine | ranks | slots | token, us | bytes | parameters, MB | rank GB/s | NIC | node "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : cases()) {
    const PlacementDevices& d = c.devices;
    fmt::print("| {} | {} x {} | {} | {:.4f} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", c.name, d.nodes(),
               d.ranks_per_node, d.slots, 1e6 * d.token_time.value(), d.token_bytes.value(),
               1e-6 * d.parameter_bytes.value(), 1e-9 * d.rank_bandwidth.value(), 1e-9 * d.nic_bandwidth.value(),
               1e-9 * d.node_bandwidth.value());
  }
}

void print_trace(const RoutingTrace& trace) {
  fmt::print(
      "| layer | max/mean expert | highest | max/mean of 16 ranks | entropy | drift | highest | locality "
      "|\n|---|---|---|---|---|---|---|---|\n");
  const auto layers = trace_statistics(trace, 16);
  for (std::size_t l = 0; l < layers.size(); l += l < 3 ? std::size_t{1} : std::size_t{4}) {
    const LayerRouting& r = layers[l];
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", l, r.mean_max_over_mean,
               r.most_max_over_mean, r.mean_rank_max_over_mean, r.mean_entropy, r.mean_drift, r.most_drift, r.locality);
  }
}

/// The results of one strategy over all layers of all iterations, each planned separately from its exact counts.
struct Everywhere {
  std::vector<double> seconds;
  double max_over_mean = 0;  // mean
  double rb = 0;             // geometric mean of the ratio of balance degrees before and after
};

Everywhere planned_everywhere(const RoutingTrace& trace, const PlacementStrategy& s, const Case& c) {
  Everywhere result;
  double finite = 0;
  const Placement none = contiguous_placement(trace.experts(), c.devices.ranks);
  for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
    for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
      const RoutingCounts counts = trace.counts(i, layer);
      const Placement placement = *s.place({.counts = counts, .devices = c.devices, .options = c.options}).placement;
      const std::vector<std::int64_t> before = rank_loads(counts, none, c.devices);
      const std::vector<std::int64_t> after = rank_loads(counts, placement, c.devices);
      result.seconds.push_back(layer_time(counts, placement, c.devices).total.value());
      result.max_over_mean += max_over_mean(after);
      if (balance_degree(before) == 0 || balance_degree(after) == 0) continue;
      result.rb += std::log(balance_degree(before) / balance_degree(after));
      ++finite;
    }
  }
  result.max_over_mean /= static_cast<double>(result.seconds.size());
  result.rb = std::exp(result.rb / std::max(1.0, finite));
  return result;
}

double mean_ms(const std::vector<double>& seconds) {
  return 1e3 * std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

void print_strategies(const RoutingTrace& trace) {
  for (const Case& c : cases()) {
    fmt::print(
        "\n{}:\n\n| strategy | max/mean | RB | layer, ms | auto / this, mean | largest |\n|---|---|---|---|---|---|\n",
        c.name);
    const Everywhere ours = planned_everywhere(trace, strategy("auto"), c);
    std::vector<double> best(ours.seconds.size(), std::numeric_limits<double>::infinity());
    for (const auto& s : placement_strategies()) {
      const RoutingCounts any = trace.counts(0, 0);
      if (const PlacementAnswer answer = s->place({.counts = any, .devices = c.devices, .options = c.options});
          !answer.placement) {
        fmt::print("| {} | no: {} | | | | |\n", s->name(), answer.infeasibility->text);
        continue;
      }
      const bool is_ours = s->name() == "auto";
      const Everywhere theirs = is_ours ? ours : planned_everywhere(trace, *s, c);
      double largest = 0, sum = 0;
      for (std::size_t i = 0; i < theirs.seconds.size(); ++i) {
        largest = std::max(largest, ours.seconds[i] / theirs.seconds[i]);
        sum += ours.seconds[i] / theirs.seconds[i];
        if (!is_ours) best[i] = std::min(best[i], theirs.seconds[i]);
      }
      fmt::print("| {} | {:.3f} | {:.2f} | {:.3f} | {:.3f} | {:.4f} |\n", s->name(), theirs.max_over_mean, theirs.rb,
                 mean_ms(theirs.seconds), sum / static_cast<double>(theirs.seconds.size()), largest);
      std::fflush(stdout);
    }
    double largest = 0, sum = 0;
    for (std::size_t i = 0; i < best.size(); ++i) {
      largest = std::max(largest, ours.seconds[i] / best[i]);
      sum += ours.seconds[i] / best[i];
    }
    fmt::print("| the best other of each layer | | | {:.3f} | {:.3f} | {:.4f} |\n", mean_ms(best),
               sum / static_cast<double>(best.size()), largest);
  }
}

void print_prophet(const RoutingTrace& trace) {
  for (const Case& c : cases()) {
    if (!c.devices.trains) continue;
    ReplayOptions o{.devices = c.devices, .options = c.options, .foresight = true};
    const auto ms = [&](const char* name) {
      const ReplayTable table = replay(trace, strategy(name), o);
      return 1e3 * table.time.value() / static_cast<double>(table.rows.size());
    };
    fmt::print("\n{}: top2 {:.3f} ms, top3 {:.3f} ms.\n\n", c.name, ms("top2"), ms("top3"));
    fmt::print(
        "| n / D | alpha | eq. 6, ms | eq. 8 | eq. 8, planned from the iteration before |\n|---|---|---|---|---|\n");
    for (const double n : {0.0, 0.25, 0.5}) {
      for (const double alpha : {0.25, 1.0}) {
        o.options.pro_prophet_n_share = n;
        o.options.pro_prophet_alpha = alpha;
        o.foresight = true;
        const double eq6 = ms("pro_prophet_eq6"), eq8 = ms("pro_prophet");
        o.foresight = false;
        fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} |\n", n, alpha, eq6, eq8, ms("pro_prophet"));
        std::fflush(stdout);
      }
    }
  }
}

void print_over_time(const RoutingTrace& trace) {
  for (const Case& c : cases()) {
    fmt::print(
        "\n{}:\n\n| strategy | planned | plans | layer, ms | migration, ms a layer | max/mean | speedup over none "
        "|\n|---|---|---|---|---|---|---|\n",
        c.name);
    for (const char* name : {"pro_prophet", "smartmoe", "eplb_distinct", "auto"}) {
      const auto row = [&](const std::string& when, ReplayOptions o) {
        o.devices = c.devices;
        o.options = c.options;
        o.options.trials = 200;
        const ReplayTable t = replay(trace, strategy(name), o);
        const auto n = static_cast<double>(t.rows.size());
        fmt::print("| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", name, when, t.plans,
                   1e3 * t.time.value() / n, 1e3 * t.migration.value() / n, t.mean_max_over_mean, t.speedup());
        std::fflush(stdout);
      };
      row("foresight", {.devices = c.devices, .foresight = true});
      for (const std::int64_t q : {1, 2, 4, 8, 16})
        row(fmt::format("every {}", q), {.devices = c.devices, .interval = q});
      for (const double d : {0.1, 0.2, 0.3})
        row(fmt::format("drift > {}", d), {.devices = c.devices, .drift_trigger = d});
    }
  }
}

void print_break_even(const RoutingTrace& trace) {
  for (const Case& c : cases()) {
    fmt::print(
        "\n{}:\n\n| strategy | gain, ms an iteration | cost, ms | break-even, iterations | lasts, x 30 iterations | "
        "memory, MB | breaks even |\n|---|---|---|---|---|---|---|\n",
        c.name);
    for (const char* name : {"pro_prophet", "smartmoe", "eplb_distinct", "lplb_ring", "auto"}) {
      double gain = 0, cost = 0, even = 0, lasts = 0, memory = 0, pays = 0, evens = 0, n = 0;
      for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
        for (std::size_t from = 0; from + 10 < trace.iterations().size(); from += 20) {
          const BreakEven b = break_even(trace, layer, from, 30, strategy(name),
                                         {.devices = c.devices, .options = c.options, .interval = 30});
          gain += b.gain.value();
          cost += b.cost.value();
          if (b.iterations) even += *b.iterations, ++evens;
          lasts += static_cast<double>(b.lasts);
          memory = std::max(memory, b.memory.value());
          pays += b.breaks_even ? 1 : 0;
          ++n;
        }
      }
      fmt::print("| {} | {:.3f} | {:.3f} | {:.1f} | {:.1f} | {:.1f} | {:.0f}% |\n", name, 1e3 * gain / n,
                 1e3 * cost / n, evens > 0 ? even / evens : 0, lasts / n, 1e-6 * memory, 100 * pays / n);
      std::fflush(stdout);
    }
  }
}

void print_redundant(const RoutingTrace& trace) {
  for (const Case& c : cases()) {
    fmt::print(
        "\n{}:\n\n| redundant a rank | memory, MB | auto, ms | max/mean | eplb_distinct, ms | max/mean "
        "|\n|---|---|---|---|---|---|\n",
        c.name);
    std::vector<RedundancyPoint> sums[2];
    for (const std::int64_t layer : {1, 8, 15, 22}) {
      int k = 0;
      for (const char* name : {"auto", "eplb_distinct"}) {
        const auto curve =
            redundancy_curve(trace, layer, 6, strategy(name), {.devices = c.devices, .options = c.options});
        if (sums[k].empty()) sums[k].resize(curve.size());
        for (std::size_t i = 0; i < curve.size(); ++i) {
          sums[k][i].redundant = curve[i].redundant;
          sums[k][i].memory = curve[i].memory;
          sums[k][i].time += curve[i].time / 4;
          sums[k][i].max_over_mean += curve[i].max_over_mean / 4;
        }
        ++k;
      }
    }
    for (std::size_t i = 0; i < sums[0].size(); ++i) {
      fmt::print("| {} | {:.1f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", sums[0][i].redundant,
                 1e-6 * sums[0][i].memory.value(), 1e3 * sums[0][i].time.value(), sums[0][i].max_over_mean,
                 1e3 * sums[1][i].time.value(), sums[1][i].max_over_mean);
    }
    std::fflush(stdout);
  }
}

void print_exact() {
  fmt::print(
      "| objective | ranks | nodes | experts | proved | searched | widest gap | auto / bound, mean | worst | smartmoe, "
      "mean | worst |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const ExactRow& r : exact_rows()) {
    fmt::print("| {} | {} | {} | {} | {} of {} | {:.0f} | {:.3f}% | {:.5f} | {:.5f} | {:.4f} | {:.4f} |\n", r.objective,
               r.ranks, r.nodes, r.experts, r.proved, r.instances, r.searched, 100 * r.widest_gap, r.mean_ratio,
               r.worst_ratio, r.mean_smartmoe, r.worst_smartmoe);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: placement_tables TRACE [PART ...]\n");
    return 2;
  }
  const RoutingTrace trace = read_routing_trace(argv[1]);
  std::vector<std::string> parts(argv + 2, argv + argc);
  if (parts.empty()) parts = {"devices", "trace", "now", "prophet", "over_time", "break_even", "redundant", "exact"};
  for (const std::string& part : parts) {
    fmt::print("\n== {}\n\n", part);
    if (part == "devices") print_devices();
    if (part == "trace") print_trace(trace);
    if (part == "now") print_strategies(trace);
    if (part == "prophet") print_prophet(trace);
    if (part == "over_time") print_over_time(trace);
    if (part == "break_even") print_break_even(trace);
    if (part == "redundant") print_redundant(trace);
    if (part == "exact") print_exact();
  }
}
