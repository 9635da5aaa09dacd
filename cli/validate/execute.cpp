#include "cli/validate/execute.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/all_to_all.hpp"
#include "planner/codec.hpp"

namespace moeplan {

namespace {

using nlohmann::json;

constexpr std::uint64_t kSeed = 1;  // of tokens and weights; echoed nowhere, since values do not depend on it
constexpr std::size_t kWarmUps = 2;
constexpr double kMostRuns = 1000;  // that are kept; assumed: enough for any interval

MadeLayer made(const LayerCase& layer, const Program& program) {
  const CodecPair codec = *parse_codec_pair(layer.candidate.codec);
  return with_choices({.shape = {layer.hidden_size, layer.moe.expert.hidden_size, layer.moe.num_experts,
                                 layer.moe.top_k, layer.moe.expert.gated},
                       .dtype = layer.workload.dtype,
                       .esp = layer.candidate.degrees.esp,
                       .there = codec.there,
                       .back = codec.back,
                       .weighs_at_experts = find_all_to_all(layer.candidate.all_to_all)->deduplicates(),
                       .codecs = layer.workload.codecs,
                       .seed = kSeed,
                       .asked = asked_counts(layer, program)},
                      program.routings.front(), layer.tokens_of_source());
}

class CaseRun {
 public:
  CaseRun(const LayerCase& layer, const ExecuteLimits& limits, Peers& peers, const BackendMaker& make_backend)
      : limits_(limits),
        peers_(peers),
        program_(lower(layer)),
        made_(made(layer, program_)),
        backend_(make_backend(layer)),
        interpreter_(program_, peers.rank(), made_.kept, {layer.moe.top_k, layer.moe.expert.gated}, *backend_) {}

  ExecutionResult run() {
    ExecutionResult result;
    check_values(result);
    for (std::size_t i = 0; i < kWarmUps; ++i) (void)interpreter_.run();
    measure(result);
    return result;
  }

 private:
  void check_values(ExecutionResult& result) {
    LayerValues values(program_, made_, interpreter_);
    values.fill();
    (void)interpreter_.run();
    const ValueErrors e = values.errors(limits_.most_reference_flops);
    const json mine = {are_right(e, made_), e.output, e.gradient, e.weight_gradient, e.rows_off, e.rows, e.has_weights};
    const std::vector<std::string> all = peers_.gather(mine.dump());
    result.is_right = !all.empty();
    const auto number = [](const json& j) { return j.is_number() ? j.get<double>() : INFINITY; };
    for (const std::string& text : all) {
      const json j = json::parse(text);
      ValueErrors& v = result.values;
      result.is_right = result.is_right && j[0].get<bool>();
      v.output = std::max(v.output, number(j[1]));
      v.gradient = std::max(v.gradient, number(j[2]));
      v.weight_gradient = std::max(v.weight_gradient, number(j[3]));
      v.rows_off = std::max(v.rows_off, j[4].get<double>());
      v.rows += j[5].get<std::int64_t>();
      v.has_weights = v.has_weights && j[6].get<bool>();
    }
  }

  /// Rank 0 decides when it is enough.
  void measure(ExecutionResult& result) {
    using Clock = std::chrono::steady_clock;
    StoppingRule rule({.most = static_cast<std::size_t>(kMostRuns), .budget = limits_.budget});
    std::string stop;
    auto last = Clock::now();
    for (std::int64_t i = 1; stop.empty(); ++i) {
      std::vector<RanSpan> spans;
      json edges = json::array();
      for (const TimelineSpan& s : interpreter_.run()) {
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
          stop = std::string(name_of<StopReason>(kStopReasonNames, *rule.reason()));
        }
      }
      stop = peers_.broadcast(stop);
    }
    result.stopped_by = stop;
  }

  const ExecuteLimits& limits_;
  Peers& peers_;
  Program program_;
  MadeLayer made_;
  std::unique_ptr<Backend> backend_;
  Interpreter interpreter_;
};

}  // namespace

std::vector<ExecutionResult> execute(const ExecuteJob& job, Peers& peers, const BackendMaker& make_backend) {
  std::vector<ExecutionResult> out;
  for (const LayerCase& layer : job.cases) {
    ExecutionResult result;
    try {
      result = CaseRun(layer, job.limits, peers, make_backend).run();
    } catch (const InputError& e) {  // found before anything runs, on all ranks alike
      result.refused = e.what();
    }
    if (peers.rank().value() == 0) out.push_back(std::move(result));
  }
  return out;
}

}  // namespace moeplan
