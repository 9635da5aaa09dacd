// What 2,000 random plans are lowered to and how long they take, as hashes: what must not change while sources move.
//
//   baseline_candidates               a line for every 100 plans: SHA-256 of their texts, with and without names
//   baseline_candidates FIRST LAST    these texts themselves, to find what differs between two executables
//
// A text is the Program (program_text.hpp), its estimate, its memory and its simulated makespan. Fails where a
// schedule, an all-to-all, a codec or a placement of the tables occurs in none of the plans. scripts/baseline runs it.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>

#include "model/base/sha256.hpp"
#include "model/costs/codec.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/ordered.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/baseline/program_text.hpp"
#include "tests/baseline/random_plan.hpp"

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::tests;

namespace {

constexpr std::uint64_t kSeed = 20261122;
constexpr int kPlans = 2000, kPlansALine = 100;

/// The n-th plan: schedules by turns.
RandomPlan plan_of(int n) {
  Random random(kSeed, static_cast<std::uint64_t>(n));
  const auto all = schedules();
  return random_plan(random, all[static_cast<std::size_t>(n) % all.size()]->name());
}

struct Predicted {
  Program program;
  std::string bound_by;
  std::string numbers;
};

Predicted predicted(const RandomPlan& plan) {
  const Small& s = plan.small;
  StageClusters machines(s.cluster);
  Program program = lowered(s.model, s.workload, machines, plan.candidate);
  std::string text;
  const auto line = [&](const char* what, double value) {
    fmt::format_to(std::back_inserter(text), "{} {:.17g}\n", what, value);
  };
  const auto& [closed_form, critical_path, compute, links, lower_bound, bound_by] = estimate(program, machines);
  line("closed form", closed_form.value());
  line("critical path", critical_path.value());
  line("compute", compute.value());
  line("links", links.value());
  line("lower bound", lower_bound.value());
  const auto& [weights, gradients, optimizer, activations, working, runtime, host, stage, fragments] =
      iteration_memory({s.model, s.workload, s.cluster}, plan.candidate, program);
  line("weights", weights.value());
  line("gradients", gradients.value());
  line("optimizer", optimizer.value());
  line("activations", activations.value());
  line("working", working.value());
  line("runtime", runtime.value());
  if (host > Bytes(0)) line("host", host.value());
  fmt::format_to(std::back_inserter(text), "stage {}\n", stage);
  const SimTime makespan = sim::simulate(program, machines, {.keep_spans = false}).makespan;
  fmt::format_to(std::back_inserter(text), "makespan {}\n", makespan.picoseconds());
  return {std::move(program), "bound by " + bound_by + "\n", std::move(text)};
}

/// The names that plans have used, and those of a table that they have not.
class Used {
 public:
  void add(const Candidate& c) {
    for (const LayerStrategy& run : c.runs.empty() ? std::vector<LayerStrategy>{LayerStrategy::of(c)} : c.runs) {
      names_.insert({"schedule " + run.schedule.name(), "all-to-all " + run.all_to_all.name()});
      for (const CodecEntry& codec : codecs()) {
        if (run.codec.dispatch == codec.format) names_.insert(fmt::format("dispatch codec {}", codec.name));
        if (run.codec.combine == codec.format) names_.insert(fmt::format("combine codec {}", codec.name));
      }
    }
    names_.insert("placement " + c.placement.name());
  }

  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> all;
    for (const auto& schedule : schedules()) all.push_back(fmt::format("schedule {}", schedule->name()));
    for (const std::string& name : all_to_all_names()) all.push_back("all-to-all " + name);
    for (const std::string& name : placement_names()) all.push_back("placement " + name);
    for (const CodecEntry& codec : codecs()) {
      all.push_back(fmt::format("dispatch codec {}", codec.name));
      all.push_back(fmt::format("combine codec {}", codec.name));
    }
    std::erase_if(all, [&](const std::string& name) { return names_.contains(name); });
    return all;
  }

 private:
  std::set<std::string> names_;
};

int print_hashes() {
  Used used;
  for (int first = 0; first < kPlans; first += kPlansALine) {
    std::string with_names, without_names;
    for (int n = first; n < first + kPlansALine; ++n) {
      const RandomPlan plan = plan_of(n);
      used.add(plan.candidate);
      const auto [program, bound_by, numbers] = predicted(plan);
      with_names += sha256(program_text(program, ProgramNames::Kept) + bound_by + numbers);
      without_names += sha256(program_text(program, ProgramNames::LeftOut) + numbers);
    }
    const int last = first + kPlansALine - 1;
    fmt::print("{}  plans {} to {}\n", sha256(with_names), first, last);
    fmt::print("{}  plans {} to {} without names\n", sha256(without_names), first, last);
  }
  for (const std::string& name : used.missing()) fmt::print(stderr, "not covered: {}\n", name);
  return 0;
}

int print_texts(int first, int last) {
  for (int n = first; n <= last; ++n) {
    const RandomPlan plan = plan_of(n);
    const auto [program, bound_by, numbers] = predicted(plan);
    fmt::print("plan {}\n{}{}{}{}", n, to_yaml(decision_document(plan.candidate)), program_text(program), bound_by,
               numbers);
  }
  return 0;
}

std::optional<int> plan_number(const char* text) {
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  return error == std::errc() && stopped == end && number >= 0 && number < kPlans ? std::optional(number)
                                                                                  : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return print_hashes();
  const auto first = argc == 3 ? plan_number(argv[1]) : std::nullopt;
  const auto last = argc == 3 ? plan_number(argv[2]) : std::nullopt;
  if (first && last) return print_texts(*first, *last);
  fmt::print(stderr, "usage: baseline_candidates [FIRST LAST], numbers of plans from 0 to {}\n", kPlans - 1);
  return 2;
}
