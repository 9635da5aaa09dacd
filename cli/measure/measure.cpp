#include "cli/measure/measure.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include "model/base/reader.hpp"
#include "profiler/statistics.hpp"
#include "profiler/stopping_rule.hpp"

namespace moeplan {

namespace {

using nlohmann::json;

json times_json(const std::vector<OperationTime>& times) {
  json out = json::array();
  for (const OperationTime& t : times) {
    out.push_back(t.start.value());
    out.push_back(t.end.value());
  }
  return out;
}

std::vector<std::vector<OperationTime>> times_of(const std::vector<std::string>& texts) {
  std::vector<std::vector<OperationTime>> out;
  for (const std::string& text : texts) {
    const json j = json::parse(text);
    auto& of_rank = out.emplace_back();
    for (std::size_t i = 0; i + 1 < j.size(); i += 2) of_rank.push_back({Seconds(j[i]), Seconds(j[i + 1])});
  }
  return out;
}

Measured measured(const Benchmark& benchmark, Seconds budget, Peers& peers, Backend& backend) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kWarmUps = 3;
  constexpr double kConfidence = 0.95;
  const BenchmarkRun run = run_of(benchmark, peers.rank());
  backend.allocate(run.buffers);
  for (const Work& work : run.works) backend.prepare(work, benchmark.name);
  StoppingRule rule({.budget = budget});
  std::string stop;
  auto last = Clock::now();
  for (std::size_t i = 0; stop.empty(); ++i) {
    backend.begin();
    for (std::size_t w = 0; w < run.works.size(); ++w) backend.enqueue(w, run.steps[w].stream, run.steps[w].after);
    const std::vector<std::string> all = peers.gather(times_json(backend.finish()).dump());
    const auto now = Clock::now();
    if (!all.empty() && i >= kWarmUps) {
      rule.add(Seconds(time_of(benchmark, times_of(all))), Seconds(std::chrono::duration<double>(now - last).count()));
      if (rule.reason()) stop = std::string(name_of<StopReason>(kStopReasonNames, *rule.reason()));
    }
    last = now;
    stop = peers.broadcast(stop);
  }
  if (rule.samples().empty()) return {};
  Measured out;
  out.median = out.low = out.high = median(rule.samples());
  if (const auto interval = median_interval(rule.samples(), kConfidence)) {
    out.low = interval->low;
    out.high = interval->high;
  }
  out.runs = std::ssize(rule.samples());
  out.stopped_by = stop;
  return out;
}

}  // namespace

std::vector<Measured> measure(const std::vector<Benchmark>& benchmarks, Seconds budget, Peers& peers,
                              const std::function<std::unique_ptr<Backend>()>& make_backend) {
  std::vector<Measured> out;
  const Seconds each = budget / static_cast<double>(benchmarks.size());
  for (const Benchmark& b : benchmarks) {
    const std::unique_ptr<Backend> backend = make_backend();
    const Measured m = measured(b, each, peers, *backend);
    if (peers.rank().value() == 0) out.push_back(m);
  }
  return out;
}

}  // namespace moeplan
