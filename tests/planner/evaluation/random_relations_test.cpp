// How the predictions of related plans relate, on plans drawn at random: one that is simulated by other means, on a
// better cluster, from a saved file, or from inputs that are written differently. MOEPLAN_RANDOM_PLANS=10000 draws so
// many; MOEPLAN_RANDOM_SEED draws others.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "model/text/unit_text.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/search/search.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/random_pipelines.hpp"

namespace moeplan::tests::random_relations_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

constexpr EvaluationOptions kWhateverFits{.checks = Checks::AllButMemory};

constexpr int kUsual = 100;

/// A random plan, some of them with a searched order of operations.
struct RandomPlan {
  RandomPipeline drawn;
  Evaluation evaluation;
  std::int64_t operations = 0;  // executed by all stages
  std::string text;
};

std::int64_t executed_operations(const Program& program) {
  std::int64_t sum = 0;
  const std::vector<std::int64_t> counts = block_counts(program);
  for (std::size_t b = 0; b < counts.size(); ++b)
    sum += counts[b] * static_cast<std::int64_t>(program.blocks[b].operations.size());
  return sum;
}

RandomPlan random_plan(Random& random) {
  RandomPipeline drawn = random_pipeline(random);
  if (random.below(3) == 0) drawn.candidate.order = OperationOrder::Searched;
  if (drawn.small.workload.mode == Mode::Train)
    drawn.candidate.recompute = drawn.small.workload.recompute.value_or(Recompute::None);
  const Small& s = drawn.small;
  Evaluation e = evaluate({s.model, s.workload, s.cluster}, drawn.candidate, Depth::Timeline, kWhateverFits);
  REQUIRE(e.evaluated.makespan);
  const std::int64_t operations = executed_operations(e.program);
  std::string text = dump(drawn.numbers, drawn.candidate);
  return {std::move(drawn), std::move(e), operations, std::move(text)};
}

/// Whether times agree but for rounding: a few events of an operation may each be rounded up to a picosecond.
bool agree(double a_ps, double b_ps, std::int64_t operations) {
  constexpr double kEvents = 8;
  return std::abs(a_ps - b_ps) <= std::max(kEvents * static_cast<double>(operations), 1e-9 * std::max(a_ps, b_ps));
}
double ps(SimTime t) { return static_cast<double>(t.picoseconds()); }

Evaluation on(const RandomPlan& p, const Cluster& cluster, Depth depth = Depth::Makespan) {
  const Small& s = p.drawn.small;
  return evaluate({s.model, s.workload, cluster}, p.drawn.candidate, depth, kWhateverFits);
}

/// Multiplies all rates and times in a part of a cluster's document.
void scale(Node& node, double rates, double times) {
  for (Node& item : node.items) scale(item, rates, times);
  for (Entry& e : node.entries) scale(e.value, rates, times);
  const std::size_t blank = node.scalar.find(' ');
  if (node.kind != Node::Kind::Scalar || node.is_string || blank == std::string::npos) return;
  const std::string unit = node.scalar.substr(blank);
  const double factor = unit.ends_with("/s") ? rates : unit.ends_with("s") ? times : 1;
  node.scalar = Node::number(factor * std::atof(node.scalar.c_str())).scalar + unit;
}

Cluster built(const Node& document) { return build_cluster(read_cluster(document), std::nullopt); }

Cluster with_faster_links(const RandomPlan& p) {
  Node document = p.drawn.small.documents.cluster;
  scale(*document.find("template"), 2, 1);
  return built(document);
}

/// A cluster that does everything in half the time.
Cluster twice_as_fast(const RandomPlan& p) {
  Node document = p.drawn.small.documents.cluster;
  scale(document, 2, 0.5);
  return built(document);
}

Cluster with_more_memory(const RandomPlan& p) {
  Cluster roomy = built(p.drawn.small.documents.cluster);
  roomy.gpu.memory = 2.0 * roomy.gpu.memory;
  return roomy;
}

/// The same quantity in a smaller unit, where that is exactly the same number; otherwise the text itself.
std::string in_other_units(const std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"GB/s", "MB/s"}, {"TB/s", "GB/s"}, {"GB", "MB"}, {"us", "ns"}, {"TFLOP/s", "GFLOP/s"}};
  const std::size_t blank = text.find(' ');
  for (const auto& [unit, smaller] : kUnits) {
    if (blank == std::string::npos || text.substr(blank + 1) != unit) continue;
    const std::string other = Node::number(1000 * std::atof(text.c_str())).scalar + " " + std::string(smaller);
    const Parsed<Seconds> a = parse_seconds(text), b = parse_seconds(other);
    if (unit == "us" && std::get<Seconds>(a) != std::get<Seconds>(b)) return text;
    return other;
  }
  return text;
}

/// The same document with its keys in another order and its quantities in other units, read again from its text.
void rewrite(Node& node, Random& random) {
  if (node.kind == Node::Kind::Scalar && !node.is_string) node.scalar = in_other_units(node.scalar);
  for (Node& item : node.items) rewrite(item, random);
  for (Entry& e : node.entries) rewrite(e.value, random);
  for (std::size_t i = node.entries.size(); i > 1; --i) std::swap(node.entries[i - 1], node.entries[random.below(i)]);
}
Node rewritten(Node node, Random& random) {
  rewrite(node, random);
  return parse_yaml(to_yaml(node), "rewritten.yaml");
}

SimTime simulated_again(const PlanInputs& documents, std::int64_t world, const Candidate& candidate) {
  const Inputs inputs = read_inputs(documents);
  const Cluster cluster = build_cluster(inputs.cluster, world);
  return *evaluate({inputs.model, inputs.workload, cluster}, candidate, Depth::Makespan, kWhateverFits)
              .evaluated.makespan;
}

Plan plan_of(const Small& s, const Evaluated& best, Seconds global_bound) {
  return {.inputs = s.documents,
          .world_size = s.cluster.world_size(),
          .candidate = best.candidate,
          .makespan = *best.makespan,
          .estimate = best.estimate,
          .global_bound = global_bound};
}

}  // namespace

TEST_CASE("Random plans: not below their bound, and the reference network gives the same time", "[slow]") {
  INFO("MOEPLAN_RANDOM_SEED=" << random_seed());
  Random random(random_seed(), 0);
  for (int i = 0, n = wanted_plans(kUsual); i < n; ++i) {
    const RandomPlan p = random_plan(random);
    const Evaluation& e = p.evaluation;
    const SimTime makespan = *e.evaluated.makespan;
    if (makespan.seconds().value() < e.evaluated.estimate.lower_bound.value() * (1 - 1e-9))
      FAIL_CHECK(makespan.seconds().value()
                 << " s is below the bound " << e.evaluated.estimate.lower_bound.value() << " s of\n"
                 << p.text);
    const Cluster& cluster = p.drawn.small.cluster;
    const SimTime fast = simulate(e.program, cluster, {.keep_spans = false}).makespan;
    const SimTime plain =
        simulate(e.program, cluster,
                 {.keep_spans = false, .skip_repeats = false, .use_symmetry = false, .network = make_plain_network})
            .makespan;
    if (!agree(ps(fast), ps(plain), p.operations))
      FAIL_CHECK(fast.picoseconds() << " ps, but by the reference " << plain.picoseconds() << " ps:\n" << p.text);
  }
}

TEST_CASE("Random plans on better clusters", "[slow]") {
  INFO("MOEPLAN_RANDOM_SEED=" << random_seed());
  Random random(random_seed(), 1);
  for (int i = 0, n = wanted_plans(kUsual); i < n; ++i) {
    const RandomPlan p = random_plan(random);
    const Cluster& cluster = p.drawn.small.cluster;
    const Evaluated& now = p.evaluation.evaluated;
    const Evaluated links = on(p, with_faster_links(p)).evaluated;
    if (links.estimate.lower_bound.value() > now.estimate.lower_bound.value() * (1 + 1e-9))
      FAIL_CHECK(links.estimate.lower_bound.value()
                 << " s rises with the links' bandwidth from " << now.estimate.lower_bound.value() << " s:\n"
                 << p.text);
    // No theorem: where transfers share links, or slow computation down beside them, an earlier end can delay another.
    if (ps(*links.makespan) > ps(*now.makespan) && !agree(ps(*links.makespan), ps(*now.makespan), p.operations))
      FAIL_CHECK(ps(*links.makespan) << " ps with links of twice the bandwidth, " << ps(*now.makespan) << " ps now:\n"
                                     << p.text);
    const Evaluated halved = on(p, twice_as_fast(p)).evaluated;
    if (!agree(2 * ps(*halved.makespan), ps(*now.makespan), 2 * p.operations))
      FAIL_CHECK(halved.makespan->picoseconds() << " ps is not half of " << now.makespan->picoseconds() << " ps:\n"
                                                << p.text);
    const Cluster roomy = with_more_memory(p);
    const Small& s = p.drawn.small;
    const auto fits = [&](const Cluster& c) {
      return !evaluate({s.model, s.workload, c}, p.drawn.candidate, Depth::Memory).infeasibility;
    };
    if (*on(p, roomy).evaluated.makespan != *now.makespan || (fits(cluster) && !fits(roomy)))
      FAIL_CHECK("more memory does harm:\n" << p.text);
  }
}

TEST_CASE("Random plans simulated again from a plan file and from inputs that are written differently", "[slow]") {
  INFO("MOEPLAN_RANDOM_SEED=" << random_seed());
  Random random(random_seed(), 2);
  const TemporaryDirectory folder;
  const auto file = folder.path() / "plan.yaml";
  for (int i = 0, n = wanted_plans(kUsual); i < n; ++i) {
    const RandomPlan p = random_plan(random);
    const Evaluated& now = p.evaluation.evaluated;
    const PlanInputs& documents = p.drawn.small.documents;
    const std::int64_t world = p.drawn.small.cluster.world_size();
    write_plan(plan_of(p.drawn.small, now, now.estimate.lower_bound), file);
    const Plan read = read_plan(file);
    if (simulated_again(read.inputs, read.world_size, read.candidate) != *now.makespan)
      FAIL_CHECK("its file gives another time:\n" << p.text);
    PlanInputs other = documents;
    other.cluster = rewritten(documents.cluster, random);
    other.model = rewritten(documents.model, random);
    other.workload = rewritten(documents.workload, random);
    if (simulated_again(other, world, p.drawn.candidate) != *now.makespan)
      FAIL_CHECK("other texts of its inputs give another time:\n" << p.text << to_yaml(other.cluster));
  }
}

TEST_CASE("Random searches: the same for one thread and three, and the best plan is that of its file", "[slow]") {
  INFO("MOEPLAN_RANDOM_SEED=" << random_seed());
  Random random(random_seed(), 3);
  const TemporaryDirectory folder;
  const auto file = folder.path() / "plan.yaml";
  for (int i = 0, n = (wanted_plans(kUsual) + 9) / 10; i < n; ++i) {
    const SmallCase numbers = random_case(random);
    const Small s = small(numbers);
    const Problem problem(s.model, s.workload, s.cluster);
    const auto found = [&](int threads) {
      const SearchResult r = search(
          problem, {.most_refined = 4, .most_simulated = 8, .most_varied = 1, .most_ordered = 1, .threads = threads});
      if (r.ranked.empty()) return std::string("nothing feasible");
      write_plan(plan_of(s, r.ranked.front(), r.global_bound), file);
      return read_text_file(file);
    };
    CAPTURE(to_yaml(cluster_document(numbers)), to_yaml(model_text_document(numbers)),
            to_yaml(workload_text_document(numbers)));
    const std::string once = found(1);
    CHECK(found(3) == once);
    if (once == "nothing feasible") continue;
    const Plan plan = read_plan(file);
    CHECK(simulated_again(plan.inputs, plan.world_size, plan.candidate) == plan.makespan);
  }
}

}  // namespace moeplan::tests::random_relations_test
