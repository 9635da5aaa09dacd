#include "planner/lowering/blocks/paired_blocks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/costs/compute.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/random_pipelines.hpp"

namespace moeplan::tests::paired_blocks_test {

using namespace moeplan::planner;

namespace {

Operation operation(const std::string& name, bool exchanges, std::vector<std::int32_t> after) {
  Operation op;
  op.name = name;
  op.after = std::move(after);
  op.work = Kernel::Add;
  if (!exchanges) return op;
  op.stream = Stream::Inter;
  op.work = Communication{.collective = Collective::AllToAll, .group = GroupId(0)};
  return op;
}

/// attention -> dispatch -> experts -> combine -> add, with the prefix in each name.
Block layer(const std::string& prefix) {
  Block b;
  b.name = prefix;
  for (const auto& [name, exchanges] : std::vector<std::pair<std::string, bool>>{
           {"attention", false}, {"dispatch", true}, {"experts", false}, {"combine", true}, {"add", false}}) {
    const auto last = static_cast<std::int32_t>(b.operations.size()) - 1;
    b.operations.push_back(
        operation(prefix + name, exchanges, last < 0 ? std::vector<std::int32_t>{} : std::vector{last}));
  }
  b.operations.push_back(launches(5));
  return b;
}

/// Executions of each operation by name and class in a whole iteration of all stages.
std::map<std::string, std::int64_t> executions(const Program& p) {
  std::map<std::string, std::int64_t> out;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const std::vector<std::int64_t> counts = block_counts(p, s);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      for (const Operation& op : p.blocks[b].operations) {
        const auto* host = std::get_if<Launches>(&op.work);
        out[op.name] += counts[b] * (host ? host->operations : 1);
      }
    }
  }
  std::erase_if(out, [](const auto& entry) { return entry.second == 0; });
  return out;
}

}  // namespace

TEST_CASE("Two blocks alternate at their exchanges, each in its own order") {
  const Block both = paired(layer("b."), layer("f."), /*delays_weight_gradients=*/false);
  std::vector<std::string> names;
  for (const Operation& op : both.operations) names.push_back(op.name);
  CHECK(names == std::vector<std::string>{"b.attention", "b.dispatch", "f.attention", "f.dispatch", "b.experts",
                                          "b.combine", "f.experts", "f.combine", "b.add", "f.add", "launches"});
  for (const Operation& op : both.operations) {
    for (const std::int32_t a : op.after) {
      const std::string& before = both.operations[static_cast<std::size_t>(a)].name;
      CHECK(before.substr(0, 2) == op.name.substr(0, 2));  // nothing waits for the other microbatch
    }
  }
  CHECK(both.operations[4].after == std::vector<std::int32_t>{1});
  CHECK(std::get<Launches>(both.operations.back().work).operations == 5 + 5);
}

TEST_CASE("Delayed weight gradients run while the exchange that followed them is in flight") {
  Block back = layer("b.");
  Operation gradient = operation("b.weight gradient", /*exchanges=*/false, {2});
  gradient.work = Gemm{.form = Gemm::Form::TN};
  gradient.op_class = OpClass::Expert;
  back.operations.insert(back.operations.begin() + 3, gradient);
  for (std::size_t i = 4; i < back.operations.size(); ++i) {
    for (std::int32_t& a : back.operations[i].after) ++a;
  }
  back.operations[4].after = {3};  // the combine is listed after the gradient
  const auto order = [&](bool delays) {
    std::vector<std::string> names;
    for (const Operation& op : paired(back, layer("f."), delays).operations) names.push_back(op.name);
    return names;
  };
  CHECK(order(false) == std::vector<std::string>{"b.attention", "b.dispatch", "f.attention", "f.dispatch", "b.experts",
                                                 "b.weight gradient", "b.combine", "f.experts", "f.combine", "b.add",
                                                 "f.add", "launches"});
  CHECK(order(true) == std::vector<std::string>{"b.attention", "b.dispatch", "f.attention", "f.dispatch", "b.experts",
                                                "b.combine", "b.weight gradient", "f.experts", "f.combine", "b.add",
                                                "f.add", "launches"});
  const Block both = paired(back, layer("f."), /*delays_weight_gradients=*/true);
  CHECK(both.operations[5].after == std::vector<std::int32_t>{4});  // the combine waits for what the gradient waits for
  CHECK(both.operations[6].after == std::vector<std::int32_t>{4});
}

TEST_CASE("An iteration with overlap does the same work, in no more memory", "[slow]") {
  Random random(11);
  int overlapped = 0, delayed = 0, in_a_v = 0, faster = 0;
  for (int i = 0; i < 400; ++i) {
    const RandomPipeline r = random_pipeline(random);
    if (!r.candidate.ep_overlap) continue;
    Candidate in_turn = r.candidate;
    in_turn.ep_overlap = in_turn.delays_weight_gradients = false;
    const Problem problem(r.small.model, r.small.workload, r.small.cluster);
    INFO(dump(r.numbers, r.candidate));
    const Program whole = lower_iteration(problem.model(), problem.workload(), in_turn, problem.ranks_per_node());
    CHECK(executions(r.program) == executions(whole));
    CHECK(iteration_memory(problem, r.candidate, r.program).total() ==
          iteration_memory(problem, in_turn, whole).total());
    ++overlapped;
    if (r.candidate.delays_weight_gradients) ++delayed;
    if (r.candidate.pipeline == PipelineShape::V) ++in_a_v;
    if (simulated_makespan(problem, r.candidate) < simulated_makespan(problem, in_turn)) ++faster;
  }
  CHECK(overlapped > 20);
  CHECK(delayed > 5);
  CHECK(in_a_v > 0);
  CHECK(faster > 0);
}

TEST_CASE("Overlap of microbatches says what it needs") {
  Random random(11);
  RandomPipeline r = random_pipeline(random);
  while (r.candidate.degrees.pp == 1 || r.small.workload.mode == Mode::Forward) r = random_pipeline(random);
  Candidate c = r.candidate;
  c.ep_overlap = true;
  const auto reason = [&](Workload w) {
    const auto found = infeasibility(r.small.model, w, c, 1);
    return found ? found->text : std::string();
  };
  Workload w = r.small.workload;
  w.zero_stage = 1;
  c.virtual_stages = 1;
  CHECK(reason(w) == "overlap of microbatches needs interleaved pipelines");
  c.degrees.dp *= c.degrees.pp;
  c.degrees.edp *= c.degrees.pp;
  c.degrees.pp = 1;
  w.global_batch = 2 * c.degrees.dp * c.micro_batch;
  CHECK(reason(w).empty());
  c.ep_overlap = false;
  c.delays_weight_gradients = true;
  CHECK(reason(w) == "delayed weight gradients need overlap of microbatches");
  c.ep_overlap = true;
  CHECK(reason(w).empty());
  w.zero_stage = 2;
  CHECK(reason(w) == "overlap of microbatches needs whole gradients");
  w.zero_stage = 1;
  w.mode = Mode::Forward;
  CHECK(reason(w) == "overlap of microbatches needs a backward pass");
}

}  // namespace moeplan::tests::paired_blocks_test
