#include "cuda_runtime/measure/measure.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "model/base/random.hpp"
#include "model/text/reader.hpp"
#include "profiler/statistics.hpp"
#include "profiler/stopping_rule.hpp"

namespace moeplan::runtime {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

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

/// A few rows of random values, copied to all rows of a buffer.
class RandomRows {
 public:
  RandomRows(BenchmarkExecution& run, BufferId of) : rows_(run.buffers.size()) {
    const BufferShape shape = run.buffers[of.index()];
    run.buffers.push_back({std::min(kRows, shape.rows), shape.columns, shape.dtype});
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      copies_.in.rows.push_back(static_cast<std::int32_t>(r % kRows));
      copies_.out.rows.push_back(static_cast<std::int32_t>(r));
    }
    copies_.in.buffer = rows_;
    copies_.out.buffer = of;
  }

  void write(const BenchmarkExecution& run, Backend& backend) const {
    const BufferShape& shape = run.buffers[rows_.index()];
    Random random(rows_.index());
    std::vector<double> row(static_cast<std::size_t>(shape.columns));
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      for (double& v : row) v = 2 * random.uniform() - 1;
      backend.write_row(rows_, r, row);
    }
  }
  [[nodiscard]] const CopyRowsWork& copies() const { return copies_; }

 private:
  static constexpr std::int64_t kRows = 16;
  BufferId rows_;
  CopyRowsWork copies_;
};

/// Allocates and prepares everything, and fills buffers with random values where required. The benchmark's works are
/// the first operations.
void make_ready(BenchmarkExecution& run, const std::string& name, Backend& backend) {
  std::vector<RandomRows> random;
  for (const BufferId b : run.random) random.emplace_back(run, b);
  backend.allocate(run.buffers);
  for (const Work& work : run.works) backend.prepare(work, name);
  for (const RandomRows& r : random) {
    r.write(run, backend);
    backend.prepare(r.copies(), name + ": random values");
  }
  backend.begin();
  for (std::size_t i = 0; i < random.size(); ++i) backend.enqueue(run.works.size() + i, Stream::Compute, {});
  (void)backend.finish();
}

Measured measured(const Benchmark& benchmark, Seconds budget, Peers& peers, Backend& backend) {
  constexpr std::size_t kWarmUps = 3;
  constexpr double kConfidence = 0.95;
  BenchmarkExecution run = run_of(benchmark, peers.rank());
  make_ready(run, benchmark.name, backend);
  profiler::StoppingRule rule({.budget = budget});
  std::string stop;
  auto last = Clock::now();
  for (std::size_t i = 0; stop.empty(); ++i) {
    backend.begin();
    for (std::size_t w = 0; w < run.works.size(); ++w) backend.enqueue(w, run.steps[w].stream, run.steps[w].after);
    std::vector<OperationTime> times = backend.finish();
    times.resize(run.works.size());  // without the operations that fill buffers
    const std::vector<std::string> all = peers.gather(times_json(times).dump());
    const auto now = Clock::now();
    if (!all.empty() && i >= kWarmUps) {
      rule.add(Seconds(time_of(benchmark, times_of(all))), Seconds(std::chrono::duration<double>(now - last).count()));
      if (rule.reason()) stop = std::string(name_of<profiler::StopReason>(profiler::kStopReasonNames, *rule.reason()));
    }
    last = now;
    stop = peers.broadcast(stop);
  }
  if (rule.samples().empty()) return {};
  Measured out;
  out.median = out.low = out.high = profiler::median(rule.samples());
  if (const auto interval = profiler::median_interval(rule.samples(), kConfidence)) {
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

}  // namespace moeplan::runtime
