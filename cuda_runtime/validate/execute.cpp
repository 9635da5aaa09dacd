#include "cuda_runtime/validate/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cuda_runtime/measure/machine_profile.hpp"
#include "model/costs/codec.hpp"
#include "planner/layer/all_to_all.hpp"

namespace moeplan::validate {

namespace {

using nlohmann::json;

constexpr std::uint64_t kSeed = 1;  // of tokens and weights; not echoed, because the results do not depend on it
constexpr std::size_t kWarmUps = 2;
constexpr double kMostRuns = 1000;  // stored executions; assumed: enough for any interval

std::optional<runtime::MoeShape> shared_shape(const planner::LayerCase& layer) {
  const Ffn& shared = layer.moe.shared;
  if (shared.hidden_size == 0) return std::nullopt;
  return runtime::MoeShape{layer.hidden_size, shared.hidden_size, /*experts=*/1, /*top_k=*/1, shared.gated};
}

runtime::SyntheticLayer made(const planner::LayerCase& layer, const Program& program) {
  const CodecPair& codec = layer.candidate.codec;
  return runtime::with_choices({.shape = {layer.hidden_size, layer.moe.expert.hidden_size, layer.moe.num_experts,
                                          layer.moe.top_k, layer.moe.expert.gated},
                                .dtype = layer.workload.dtype,
                                .esp = layer.candidate.degrees.esp,
                                .shared = shared_shape(layer),
                                .tp = layer.candidate.degrees.tp,
                                .norm = layer.norm,
                                .dispatch_format = codec.dispatch,
                                .combine_format = codec.combine,
                                .weighs_at_experts = layer.workload.gate_weights == GateWeights::InExperts ||
                                                     layer.candidate.all_to_all->deduplicates(),
                                .codecs = layer.workload.codecs,
                                .seed = kSeed,
                                .asked = planner::asked_counts(layer, program)},
                               program.routings.front(), layer.tokens_of_source());
}

class CaseRun {
 public:
  CaseRun(const planner::LayerCase& layer, const ExecuteLimits& limits, runtime::Peers& peers,
          const RankMachine& machine)
      : limits_(limits),
        peers_(peers),
        machine_(machine),
        program_(lower(layer)),
        made_(made(layer, program_)),
        backend_(machine.make_backend(layer.workload.codecs)),
        interpreter_(program_, peers.rank(), made_.kept, {layer.moe.top_k, layer.moe.expert.gated}, *backend_),
        values_(program_, made_, interpreter_) {}

  ExecutionResult run() {
    ExecutionResult result;
    check_values(result);
    begin("warm-up");
    values_.hold_weights();
    for (std::size_t i = 0; i < kWarmUps; ++i) (void)run_once();
    measure(result);
    return result;
  }

 private:
  void begin(const std::string& phase) const {
    if (machine_.begins) machine_.begins(phase);
  }

  std::vector<TimelineSpan> run_once() {
    values_.begin_run();
    return interpreter_.run();
  }

  void check_values(ExecutionResult& result) {
    begin("making values");
    values_.fill();
    begin("run for values");
    (void)interpreter_.run();
    begin("comparing values");
    const runtime::ValueErrors e = values_.errors(limits_.most_reference_flops);
    const json mine = {runtime::are_right(e, made_),
                       e.output,
                       e.gradient,
                       e.weight_gradient,
                       e.rows_off,
                       e.rows,
                       e.has_weights,
                       e.update};
    const std::vector<std::string> all = peers_.gather(mine.dump());
    result.is_right = !all.empty();
    const auto number = [](const json& j) { return j.is_number() ? j.get<double>() : INFINITY; };
    for (const std::string& text : all) {
      const json j = json::parse(text);
      runtime::ValueErrors& v = result.values;
      result.is_right = result.is_right && j[0].get<bool>();
      v.output = std::max(v.output, number(j[1]));
      v.gradient = std::max(v.gradient, number(j[2]));
      v.weight_gradient = std::max(v.weight_gradient, number(j[3]));
      v.rows_off = std::max(v.rows_off, j[4].get<double>());
      v.rows += j[5].get<std::int64_t>();
      v.has_weights = v.has_weights && j[6].get<bool>();
      v.update = std::max(v.update, number(j[7]));
    }
  }

  /// Times executions until rank 0 decides to stop.
  void measure(ExecutionResult& result) {
    using Clock = std::chrono::steady_clock;
    profiler::StoppingRule rule({.most = static_cast<std::size_t>(kMostRuns), .budget = limits_.budget});
    std::string stop;
    auto last = Clock::now();
    for (std::int64_t i = 1; stop.empty(); ++i) {
      begin(fmt::format("run {}", i));
      json edges = json::array();
      for (const TimelineSpan& s : run_once()) {
        edges.push_back(s.start.picoseconds() / 1000);
        edges.push_back(s.end.picoseconds() / 1000);
      }
      const std::vector<std::string> all = peers_.gather(edges.dump());
      if (!all.empty()) {
        std::int64_t makespan = 0;
        auto& ranks = result.runs.emplace_back();
        for (const std::string& text : all) {
          const json j = json::parse(text);
          auto& of_rank = ranks.emplace_back();
          for (std::size_t e = 0; e + 1 < j.size(); e += 2) {
            of_rank.push_back({j[e], j[e + 1]});
            makespan = std::max(makespan, of_rank.back().end);
          }
        }
        const auto now = Clock::now();
        rule.add(Seconds(static_cast<double>(makespan) * 1e-9),
                 Seconds(std::chrono::duration<double>(now - last).count()));
        last = now;
        if (limits_.iterations) {
          if (i >= *limits_.iterations) stop = "iterations";
        } else if (rule.reason()) {
          stop = std::string(name_of<profiler::StopReason>(profiler::kStopReasonNames, *rule.reason()));
        }
      }
      stop = peers_.broadcast(stop);
    }
    result.stopped_by = stop;
  }

  const ExecuteLimits& limits_;
  runtime::Peers& peers_;
  const RankMachine& machine_;
  Program program_;
  runtime::SyntheticLayer made_;
  std::unique_ptr<runtime::Backend> backend_;
  runtime::Interpreter interpreter_;
  runtime::LayerValues values_;
};

/// The clocks of all ranks' GPUs, on rank 0.
runtime::SeenClocks clocks_of_all(runtime::Peers& peers, const RankMachine& machine) {
  const runtime::SeenClocks mine = machine.clocks ? machine.clocks() : runtime::SeenClocks{};
  runtime::SeenClocks out;
  for (const std::string& text : peers.gather(clocks_text(mine))) out.add(read_clocks(text));
  return out;
}

ExecutionResult executed(const planner::LayerCase& layer, const ExecuteLimits& limits, runtime::Peers& peers,
                         const RankMachine& machine) {
  try {
    return CaseRun(layer, limits, peers, machine).run();
  } catch (const InputError& e) {  // found before execution, on all ranks
    ExecutionResult refused;
    refused.refused = e.what();
    return refused;
  }
}

/// Whether all ranks say so.
bool is_true_of_all(bool mine, runtime::Peers& peers) {
  const std::vector<std::string> all = peers.gather(mine ? "yes" : "no");
  return peers.broadcast(std::count(all.begin(), all.end(), "no") > 0 ? "no" : "yes") == "yes";
}

/// Distributes the texts of rank 0 to all ranks.
std::vector<std::string> of_all(const std::vector<std::string>& texts, runtime::Peers& peers) {
  return json::parse(peers.broadcast(json(texts).dump()));
}

}  // namespace

std::int64_t machines_of(const std::vector<std::string>& hosts) {
  std::vector<std::string> machines;
  for (const std::string& host : hosts) {
    if (machines.empty() || machines.back() != host) machines.push_back(host);
  }
  const std::size_t each = hosts.size() / machines.size();
  bool are_even = std::set<std::string>(machines.begin(), machines.end()).size() == machines.size();
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    are_even = are_even && r / each < machines.size() && hosts[r] == machines[r / each];
  }
  if (are_even) return std::ssize(machines);
  throw InputError(Diagnostic{{"profile"}, "", "needs as many ranks on each machine, one after the other"});
}

Answer answer(const ExecuteJob& job, runtime::Peers& peers, const RankMachine& machine) {
  const bool is_first = peers.rank().value() == 0;
  Answer out{peers.gather(machine.host), machine.processor, {}};
  for (const planner::LayerCase& layer : job.cases) {
    ExecutionResult result = executed(layer, job.limits, peers, machine);
    const runtime::SeenClocks clocks = clocks_of_all(peers, machine);
    if (!is_first) continue;
    if (machine.case_ends) machine.case_ends({out.hosts, out.processor, {result}, {}, clocks});
    out.cases.push_back(std::move(result));
  }
  if (job.measure) {
    const std::int64_t machines = machines_of(of_all(out.hosts, peers));
    out.processor.multiplies_fp8 = is_true_of_all(machine.processor.multiplies_fp8, peers);
    // All ranks take rank 0's number, so that they agree on the benchmarks.
    const runtime::MeasuredMachine here{
        .has_gpus = job.measure->scale == runtime::BenchmarkScale::Gpus,
        .processors = std::stoll(peers.broadcast(std::to_string(machine.processor.count))),
        .ranks = peers.size(),
        .nodes = machines,
        .multiplies_fp8 = out.processor.multiplies_fp8};
    out.measured = measure(job.measure->operators ? runtime::operator_benchmarks(here.multiplies_fp8)
                                                  : runtime::benchmarks(job.measure->scale, here.measured_ranks()),
                           job.measure->budget, peers, [&] { return machine.make_backend({}); });
  }
  out.clocks = clocks_of_all(peers, machine);
  return out;
}

}  // namespace moeplan::validate
