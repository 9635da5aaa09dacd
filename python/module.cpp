// The native part of the Python module `moeplan` (python/moeplan/__init__.py), which has the documentation.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>

#include "cli/application/version.hpp"
#include "cli/options/message_sizes.hpp"
#include "cli/pages/collectives/collective_table.hpp"
#include "cli/pages/listing.hpp"
#include "cli/pages/scores/scored_table.hpp"
#include "python/evaluation.hpp"

namespace moeplan::python {

namespace {

using Ints = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using NoGil = py::call_guard<py::gil_scoped_release>;

py::object loaded_json(const std::string& text) { return py::module_::import("json").attr("loads")(text); }

std::vector<Matrix> matrices(const std::vector<Ints>& arrays) {
  std::vector<Matrix> out;
  for (const Ints& array : arrays) {
    if (array.ndim() != 2) throw_input_error({"placement"}, "", "expected matrices");
    out.push_back({array.shape(0), array.shape(1), {array.data(), array.data() + array.size()}});
  }
  return out;
}

planner::Depth depth_of(const std::string& name) {
  const std::vector<std::pair<std::string, planner::Depth>> depths{{"memory", planner::Depth::Memory},
                                                                   {"estimate", planner::Depth::Estimate},
                                                                   {"makespan", planner::Depth::Makespan},
                                                                   {"timeline", planner::Depth::Timeline}};
  std::vector<std::string> names;
  for (const auto& [known, depth] : depths) {
    if (known == name) return depth;
    names.push_back(known);
  }
  throw InputError(Diagnostic{{"depth"}, "", in_quotes(name) + " is not known" + suggestion(name, names)});
}

Evaluated evaluate(const std::shared_ptr<OwnedProblem>& problem, const std::string& decision,
                   const std::shared_ptr<OwnSchedule>& schedule, const std::vector<Ints>& placements,
                   const std::string& depth, bool checks_memory) {
  const std::vector<Matrix> own = matrices(placements);
  const py::gil_scoped_release released;
  const planner::Candidate candidate = problem->candidate(decision, schedule.get(), own);
  return {problem, schedule,
          planner::evaluate(problem->problem(), candidate, depth_of(depth),
                            {.checks = checks_memory ? planner::Checks::All : planner::Checks::AllButMemory})};
}

py::dict memory_of(const MemoryUse& m) {
  py::dict out;
  for (const auto& [name, bytes] :
       {std::pair("weights", m.weights), std::pair("gradients", m.gradients), std::pair("optimizer", m.optimizer),
        std::pair("activations", m.activations), std::pair("working", m.working), std::pair("runtime", m.runtime)})
    out[name] = bytes.value();
  return out;
}

std::optional<double> seconds_of(const Evaluated& e, Seconds Estimate::*part) {
  if (!e.has_estimate()) return std::nullopt;
  return (e.value.evaluated.estimate.*part).value();
}

std::optional<planner::Throughput> throughput_of(const Evaluated& e) {
  if (!e.value.evaluated.makespan) return std::nullopt;
  return planner::throughput(e.problem->problem(), e.value.evaluated.candidate, *e.value.evaluated.makespan);
}

py::dict collective(const std::string& cluster, const std::string& op, const std::string& algorithm,
                    const std::variant<std::string, std::vector<std::int64_t>>& sizes,
                    std::optional<std::int64_t> world, const std::vector<std::string>& overrides) {
  std::vector<std::int64_t> bytes;
  std::vector<double> time, rate, bus;
  std::string name;
  {
    const py::gil_scoped_release released;
    const planner::CollectiveAlgorithm& chosen = cli::collective_algorithm(op, algorithm);
    cli::check_cluster_overrides(overrides);
    const auto* text = std::get_if<std::string>(&sizes);
    const std::vector<std::int64_t> all =
        text ? cli::parse_message_sizes(*text) : std::get<std::vector<std::int64_t>>(sizes);
    for (const std::int64_t size : all) {
      if (size < 1 || size > std::int64_t{1} << 40)
        throw InputError(Diagnostic{{"--sizes"}, "", fmt::format("{} B is not 1 B to 1 TiB", size)});
    }
    const Cluster machine = planner::load_cluster(cluster, overrides, world);
    const double factor = planner::bus_bandwidth_factor(chosen.collective, machine.world_size());
    name = chosen.name;
    for (const cli::CollectiveResult& r : cli::collective_table(chosen, machine, all)) {
      bytes.push_back(r.bytes);
      time.push_back(r.time.value());
      rate.push_back(r.algorithm_bandwidth().value());
      bus.push_back(r.algorithm_bandwidth().value() * factor);
    }
  }
  py::dict out;
  out["algorithm"] = name;
  out["bytes"] = as_array(bytes);
  out["time_s"] = as_array(time);
  out["algorithm_bandwidth_bytes_per_s"] = as_array(rate);
  out["bus_bandwidth_bytes_per_s"] = as_array(bus);
  return out;
}

py::dict score(const std::string& file) {
  cli::ScoreReport report;
  std::string document;
  {
    const py::gil_scoped_release released;
    report = cli::scored_table(file);
    document = cli::score_json({report});
  }
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> measured, predicted;
  py::list id, reason;
  for (const profiler::ScoredRow& row : report.rows) {
    id.append(row.id);
    reason.append(row.reason);
    measured.push_back(row.measured.value());
    predicted.push_back(row.predicted ? row.predicted->value() : none);
  }
  for (const profiler::ScoredRun& run : report.runs ? report.runs->rows : std::vector<profiler::ScoredRun>{}) {
    id.append(report.runs->table[run.row].id);
    reason.append(run.reason);
    measured.push_back(run.measured ? run.measured->value() : none);
    predicted.push_back(run.predicted ? run.predicted->value() : none);
  }
  py::dict out;
  out["id"] = id;
  out["measured_s"] = as_array(measured);
  out["predicted_s"] = as_array(predicted);
  out["reason"] = reason;
  out["document"] = loaded_json(document);
  return out;
}

std::vector<std::string> names(const std::string& what) {
  const std::vector<std::string> kinds(cli::kListed.begin(), cli::kListed.end());
  if (std::find(kinds.begin(), kinds.end(), what) == kinds.end())
    throw InputError(Diagnostic{{"names"}, "", in_quotes(what) + " is not known" + suggestion(what, kinds)});
  std::vector<std::string> out;
  for (const auto& [name, about] : cli::listing(what)) out.push_back(name);
  return out;
}

void bind_request(py::module_& m) {
  using planner::PlanRequest;
  py::class_<PlanRequest>(m, "PlanRequest")
      .def(py::init<>())
      .def_readwrite("cluster", &PlanRequest::cluster)
      .def_readwrite("model", &PlanRequest::model)
      .def_readwrite("workload", &PlanRequest::workload)
      .def_readwrite("world", &PlanRequest::world)
      .def_readwrite("overrides", &PlanRequest::overrides)
      .def_readwrite("approximate_unknown", &PlanRequest::approximates)
      .def_readwrite("framework", &PlanRequest::framework)
      .def_readwrite("precision", &PlanRequest::precision)
      .def_readwrite("schedule", &PlanRequest::schedule)
      .def_readwrite("all_to_all", &PlanRequest::all_to_all)
      .def_readwrite("codec", &PlanRequest::codec)
      .def_readwrite("placement", &PlanRequest::placement)
      .def_readwrite("layout", &PlanRequest::layout)
      .def_readwrite("recompute", &PlanRequest::recompute)
      .def_readwrite("tp", &PlanRequest::tp)
      .def_readwrite("cp", &PlanRequest::cp)
      .def_readwrite("ep", &PlanRequest::ep)
      .def_readwrite("esp", &PlanRequest::esp)
      .def_readwrite("dp", &PlanRequest::dp)
      .def_readwrite("pp", &PlanRequest::pp)
      .def_readwrite("vp", &PlanRequest::vp)
      .def_readwrite("micro_batch", &PlanRequest::micro_batch)
      .def_readwrite("pipeline_degree", &PlanRequest::pipeline_degree)
      .def_readwrite("sp", &PlanRequest::sp)
      .def_readwrite("zero", &PlanRequest::zero)
      .def_readwrite("redundant_experts", &PlanRequest::redundant_experts)
      .def_readwrite("pipeline", &PlanRequest::pipeline)
      .def_readwrite("ep_overlap", &PlanRequest::ep_overlap)
      .def_readwrite("delay_wgrad", &PlanRequest::delay_wgrad)
      .def_readwrite("dispatcher_sms", &PlanRequest::dispatcher_sms)
      .def_readwrite("seed", &PlanRequest::seed)
      .def_readwrite("budget", &PlanRequest::budget)
      .def_readwrite("threads", &PlanRequest::threads);
}

void bind_problem(py::module_& m) {
  py::class_<OwnSchedule, std::shared_ptr<OwnSchedule>>(m, "Schedule")
      .def(py::init<std::string, std::string, const OwnSchedule::Order&>())
      .def_property_readonly("name", [](const OwnSchedule& s) { return std::string(s.name()); });
  py::class_<OwnedProblem, std::shared_ptr<OwnedProblem>>(m, "Problem")
      .def(py::init([](const planner::PlanRequest& request) {
             return std::make_shared<OwnedProblem>(planner::load_job(request));
           }),
           NoGil())
      .def_property_readonly("world", [](const OwnedProblem& p) { return p.job().cluster.world_size(); })
      .def_property_readonly("ranks_per_node", [](const OwnedProblem& p) { return p.job().cluster.ranks_per_node(); })
      .def("document",
           [](const OwnedProblem& p, const std::string& which) {
             const planner::PlanInputs& d = p.job().documents;
             return as_python(which == "cluster" ? d.cluster : which == "model" ? d.model : d.workload);
           })
      .def("default_decision", [](const OwnedProblem& p) { return as_python(p.default_decision()); })
      .def("loads",
           [](const OwnedProblem& p, const std::string& decision) {
             py::list out;
             for (const Matrix& matrix : p.loads(decision)) {
               out.append(py::array_t<std::int64_t>({matrix.rows, matrix.columns}, matrix.values.data()));
             }
             return out;
           })
      .def("evaluate", &evaluate);
}

void bind_evaluation(py::module_& m) {
  py::class_<Evaluated>(m, "Evaluation")
      .def_property_readonly("problem", [](const Evaluated& e) { return e.problem; })
      .def_property_readonly(
          "decision",
          [](const Evaluated& e) { return as_python(planner::decision_document(e.value.evaluated.candidate)); })
      .def_property_readonly("infeasibility",
                             [](const Evaluated& e) -> std::optional<std::string> {
                               if (!e.value.infeasibility) return std::nullopt;
                               return e.value.infeasibility->text;
                             })
      .def_property_readonly("makespan_s",
                             [](const Evaluated& e) -> std::optional<double> {
                               if (!e.value.evaluated.makespan) return std::nullopt;
                               return e.value.evaluated.makespan->seconds().value();
                             })
      .def_property_readonly("closed_form_s", [](const Evaluated& e) { return seconds_of(e, &Estimate::closed_form); })
      .def_property_readonly("lower_bound_s", [](const Evaluated& e) { return seconds_of(e, &Estimate::lower_bound); })
      .def_property_readonly("bound_by", [](const Evaluated& e) { return e.value.evaluated.estimate.bound_by; })
      .def_property_readonly("memory", [](const Evaluated& e) { return memory_of(e.value.evaluated.memory); })
      .def_property_readonly("memory_bytes",
                             [](const Evaluated& e) { return e.value.evaluated.memory.total().value(); })
      .def_property_readonly("memory_limit_bytes",
                             [](const Evaluated& e) { return e.problem->job().cluster.memory_per_rank().value(); })
      .def_property_readonly("tokens_per_s_per_gpu",
                             [](const Evaluated& e) -> std::optional<double> {
                               const auto t = throughput_of(e);
                               return t ? std::optional(t->tokens_per_s_per_gpu) : std::nullopt;
                             })
      .def_property_readonly("model_flops_utilization",
                             [](const Evaluated& e) -> std::optional<double> {
                               const auto t = throughput_of(e);
                               return t ? std::optional(t->model_flops_utilization) : std::nullopt;
                             })
      .def("ranks", &Evaluated::ranks)
      .def("spans", &Evaluated::spans)
      .def("links", &Evaluated::links);
}

void bind_plan(py::module_& m) {
  py::class_<PlannedPlan>(m, "Plan")
      .def_property_readonly("candidates", [](const PlannedPlan& p) { return p.candidates; })
      .def_property_readonly("lower_bound_s", [](const PlannedPlan& p) { return p.plan.global_bound.value(); })
      .def_property_readonly("optimality_gap", [](const PlannedPlan& p) { return p.plan.optimality_gap(); })
      .def_property_readonly("page", [](const PlannedPlan& p) { return p.page; })
      .def_property_readonly("document", [](const PlannedPlan& p) { return loaded_json(p.document); })
      .def("write", &write_plan_file);
  m.def("plan", &find_plan, NoGil());
  m.def("simulate", &simulated_plan, NoGil());
}

}  // namespace

PYBIND11_MODULE(_moeplan, m) {
  py::register_exception<InputError>(m, "InputError", PyExc_ValueError);
  py::register_exception<Infeasible>(m, "Infeasible", PyExc_RuntimeError);
  bind_request(m);
  bind_problem(m);
  bind_evaluation(m);
  bind_plan(m);
  m.def("collective", &collective);
  m.def("score", &score);
  m.def("names", &names);
  m.def("task_names", &task_names);
  m.def("version_page", &cli::version_page);
  m.attr("__version__") = cli::version();
}

}  // namespace moeplan::python
