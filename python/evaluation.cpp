#include "python/evaluation.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <map>

#include "cli/pages/plans/plan_report.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "model/text/document.hpp"

namespace moeplan::python {

namespace {

template <class Number>
std::optional<Number> whole_text_as(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

py::list as_list(const std::vector<std::string>& texts) {
  py::list out;
  for (const std::string& text : texts) out.append(text);
  return out;
}

Evaluated of_prediction(const std::shared_ptr<OwnedProblem>& problem, const std::shared_ptr<OwnSchedule>& schedule,
                        const planner::Candidate& candidate, planner::Prediction prediction) {
  planner::Evaluation value{.evaluated = {.candidate = candidate,
                                          .memory = prediction.memory,
                                          .estimate = prediction.estimate,
                                          .makespan = prediction.makespan},
                            .program = std::move(prediction.program),
                            .timeline = std::move(prediction.timeline)};
  return {problem, schedule, std::move(value)};
}

}  // namespace

py::object as_python(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null: return py::none();
    case Node::Kind::List: {
      py::list out;
      for (const Node& item : node.items) out.append(as_python(item));
      return out;
    }
    case Node::Kind::Map: {
      py::dict out;
      for (const Entry& e : node.entries) out[py::str(e.key)] = as_python(e.value);
      return out;
    }
    case Node::Kind::Scalar: break;
  }
  if (node.is_string) return py::str(node.scalar);
  if (node.scalar == "true" || node.scalar == "false") return py::bool_(node.scalar == "true");
  if (const auto integer = whole_text_as<std::int64_t>(node.scalar)) return py::int_(*integer);
  if (node.scalar.find_first_of("0123456789") < 2) {
    if (const auto number = whole_text_as<double>(node.scalar)) return py::float_(*number);
  }
  return py::str(node.scalar);
}

void Evaluated::need_timeline() const {
  if (value.program.blocks.empty())
    throw_input_error({"evaluation"}, "", "has no timeline; evaluate a feasible decision with depth=\"timeline\"");
}

py::dict Evaluated::ranks() const {
  need_timeline();
  std::vector<std::int64_t> rank, stage;
  std::vector<double> compute, communication, exposed, idle, waiting;
  const std::vector<RankTime> times = rank_times(value.program, value.timeline);
  std::map<OpClass, std::vector<double>> classes;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const RankTime& t = times[i];
    rank.push_back(t.rank.value());
    stage.push_back(static_cast<std::int64_t>(value.program.stage_of(t.rank)));
    compute.push_back(t.compute.value());
    communication.push_back(t.communication.value());
    exposed.push_back(t.exposed_communication.value());
    idle.push_back(t.idle.value());
    waiting.push_back(t.waiting.value());
    for (const ClassTime& c : t.classes)
      classes.try_emplace(c.op_class, times.size(), 0.0).first->second[i] = c.visible.value();
  }
  py::dict by_class;
  for (const auto& [op_class, seconds] : classes)
    by_class[py::str(std::string(name_of<OpClass>(kOpClassNames, op_class)))] = as_array(seconds);
  py::dict out;
  out["rank"] = as_array(rank);
  out["stage"] = as_array(stage);
  out["compute_s"] = as_array(compute);
  out["communication_s"] = as_array(communication);
  out["exposed_communication_s"] = as_array(exposed);
  out["idle_s"] = as_array(idle);
  out["waiting_s"] = as_array(waiting);
  out["classes_s"] = by_class;
  return out;
}

py::dict Evaluated::spans() const {
  need_timeline();
  std::vector<std::int64_t> rank, stage, operation, occurrences;
  std::vector<double> start, end;
  std::vector<std::string> names, streams, classes;
  std::vector<std::int64_t> first;  // index of a block's first operation in `names`
  for (const Block& block : value.program.blocks) {
    first.push_back(std::ssize(names));
    for (const Operation& o : block.operations) {
      names.push_back(o.name);
      streams.emplace_back(name_of<Stream>(kStreamNames, o.stream));
      classes.emplace_back(name_of<OpClass>(kOpClassNames, o.op_class));
    }
  }
  for (const TimelineSpan& span : value.timeline.spans) {
    rank.push_back(span.rank.value());
    stage.push_back(static_cast<std::int64_t>(value.program.stage_of(span.rank)));
    operation.push_back(first[span.block.index()] + span.operation);
    occurrences.push_back(value.timeline.occurrences(span));
    start.push_back(span.start.seconds().value());
    end.push_back(span.end.seconds().value());
  }
  py::dict out;
  out["rank"] = as_array(rank);
  out["stage"] = as_array(stage);
  out["start_s"] = as_array(start);
  out["end_s"] = as_array(end);
  out["occurrences"] = as_array(occurrences);
  out["operation"] = as_array(operation);
  out["names"] = as_list(names);
  out["streams"] = as_list(streams);
  out["classes"] = as_list(classes);
  return out;
}

py::dict Evaluated::links() const {
  need_timeline();
  std::vector<std::string> names;
  std::vector<double> bytes, utilisation;
  for (const LinkUtilisation& link : link_utilisation(value.timeline, problem->job().cluster.topology)) {
    names.push_back(link.name);
    bytes.push_back(link.bytes.value());
    utilisation.push_back(link.utilisation);
  }
  py::dict out;
  out["name"] = as_list(names);
  out["bytes"] = as_array(bytes);
  out["utilisation"] = as_array(utilisation);
  return out;
}

PlannedPlan find_plan(const planner::PlanRequest& request, std::int64_t top,
                      const std::shared_ptr<OwnSchedule>& schedule) {
  const auto start = std::chrono::steady_clock::now();
  planner::PlanJob loaded = planner::load_job(request);
  if (schedule) loaded.space.schedule = planner::BuiltIn<planner::Schedule>(*schedule);
  const auto problem = std::make_shared<OwnedProblem>(std::move(loaded));
  const planner::PlanJob& job = problem->job();
  planner::PlanAnswer answer = planner::answer(job, top);
  if (answer.result.ranked.empty()) {
    std::optional<planner::WouldFit> would_fit;
    if (job.cluster.ranks_per_gpu == 1)
      would_fit = planner::what_would_fit(job.inputs, job.space, job.cluster.world_size());
    throw Infeasible(cli::infeasible_page(job.inputs, job.cluster, answer.result, would_fit));
  }
  PlannedPlan out{.plan = planner::best_plan(job, answer), .candidates = {}, .page = {}, .document = {}};
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const planner::Framework* framework = job.space.framework ? &*job.space.framework : nullptr;
  const std::vector<MemoryUse> stage_memory = planner::best_stage_memory(job, answer);
  const cli::PlanReport report{job.inputs,         job.documents,         job.cluster, answer.result,
                               answer.predictions, out.plan.tutel,        framework,   answer.beyond,
                               stage_memory,       job.has_default_batch, wall,        job.space.thread_count()};
  out.page = cli::plan_page(report, false);
  out.document = cli::plan_json(report);
  for (std::size_t i = 0; i < answer.predictions.size(); ++i) {
    out.candidates.push_back(
        of_prediction(problem, schedule, answer.result.ranked[i].candidate, std::move(answer.predictions[i])));
  }
  return out;
}

PlannedPlan simulated_plan(const std::string& file, const std::vector<std::string>& overrides) {
  const auto start = std::chrono::steady_clock::now();
  cli::PreparedPlan prepared = cli::load_plan(file, overrides);
  planner::Prediction prediction = predict(prepared);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  PlannedPlan out{.plan = prepared.plan, .candidates = {}, .page = {}, .document = {}};
  out.page = cli::simulate_page(prepared.plan, prepared.inputs, prepared.cluster, prediction);
  out.document = cli::simulate_json(prepared.plan, prepared.inputs, prepared.cluster, prediction, wall);
  out.plan.makespan = prediction.makespan;
  out.plan.estimate = prediction.estimate;
  const auto problem = std::make_shared<OwnedProblem>(
      planner::PlanJob{prepared.plan.inputs, std::move(prepared.inputs), std::move(prepared.cluster), {}});
  out.candidates.push_back(of_prediction(problem, nullptr, out.plan.candidate, std::move(prediction)));
  return out;
}

void write_plan_file(const PlannedPlan& plan, const std::string& file) {
  if (plan.candidates.front().schedule) {
    throw_input_error({file}, "",
                      fmt::format("{} is not built in; plan files hold built-in schedules only",
                                  in_quotes(plan.plan.candidate.schedule.name())));
  }
  planner::write_plan(plan.plan, file);
}

}  // namespace moeplan::python
