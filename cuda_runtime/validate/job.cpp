#include "cuda_runtime/validate/job.hpp"

#include <nlohmann/json.hpp>

#include "planner/report/json_parts.hpp"

namespace moeplan::validate {

namespace {

/// Spans as one number per edge, by execution and rank.
planner::Json runs_json(const ExecutionResult& c) {
  planner::Json runs = planner::Json::array();
  for (const auto& run : c.runs) {
    planner::Json& ranks = runs.emplace_back(planner::Json::array());
    for (const auto& spans : run) {
      planner::Json& edges = ranks.emplace_back(planner::Json::array());
      for (const RanSpan& s : spans) {
        edges.push_back(s.start);
        edges.push_back(s.end);
      }
    }
  }
  return runs;
}

planner::Json values_json(const runtime::ValueErrors& v) {
  return {{"output", v.output},          {"gradient", v.gradient}, {"weight_gradient", v.weight_gradient},
          {"update", v.update},          {"rows_off", v.rows_off}, {"rows", v.rows},
          {"has_weights", v.has_weights}};
}

}  // namespace

std::string clocks_text(const runtime::SeenClocks& c) {
  const auto numbers = [](const runtime::GpuClocks& g) {
    return planner::Json{g.multiprocessors, g.most_multiprocessors, g.memory, g.most_memory};
  };
  return planner::Json{numbers(c.low), numbers(c.high), c.looks}.dump();
}

runtime::SeenClocks read_clocks(const std::string& text) {
  const planner::Json j = planner::Json::parse(text);
  const auto clocks = [](const planner::Json& g) { return runtime::GpuClocks{g.at(0), g.at(1), g.at(2), g.at(3)}; };
  return {clocks(j.at(0)), clocks(j.at(1)), j.at(2)};
}

Node job_document(const ExecuteJob& job) {
  Node d = Node::map();
  d.set("time_out_s", Node::number(job.limits.time_out.value()));
  d.set("budget_s", Node::number(job.limits.budget.value()));
  d.set("iterations", Node::integer(job.limits.iterations.value_or(0)));
  d.set("most_reference_flops", Node::number(job.limits.most_reference_flops));
  d.set("link_of_parts", Node::number(job.link_of_parts.value_or(BytesPerSecond(0)).value()));
  if (job.measure) {
    Node& m = d.set("measure", Node::map());
    m.set("ranks", Node::integer(job.measure->ranks));
    m.set("budget_s", Node::number(job.measure->budget.value()));
    m.set("gpus", Node::boolean(job.measure->scale == runtime::BenchmarkScale::Gpus));
    m.set("operators", Node::boolean(job.measure->operators));
  }
  Node& cases = d.set("cases", Node::list());
  for (const planner::LayerCase& c : job.cases) cases.items.push_back(planner::layer_case_document(c));
  return d;
}

ExecuteJob read_job(const Node& document) {
  Diagnostics wrong;
  MapReader d(document, "", wrong);
  ExecuteJob out;
  out.limits.time_out = Seconds(d.number("time_out_s", 0, 1e6));
  out.limits.budget = Seconds(d.number("budget_s", 0, 1e6));
  if (const std::int64_t n = d.integer("iterations", 0); n > 0) out.limits.iterations = n;
  out.limits.most_reference_flops = d.number("most_reference_flops", 1, 1e18);
  if (const double link = d.number_or("link_of_parts", 0, 0, 1e18); link > 0) out.link_of_parts = BytesPerSecond(link);
  for (const auto& [node, path] : d.list("cases")) out.cases.push_back(planner::read_layer_case(*node));
  if (d.has("measure")) {
    constexpr std::int64_t kMost = 65'536;
    MapReader m = d.map("measure");
    out.measure = {m.integer("ranks", 0, kMost), Seconds(m.number("budget_s", 0, 1e6)),
                   m.boolean("gpus") ? runtime::BenchmarkScale::Gpus : runtime::BenchmarkScale::Cores,
                   m.boolean("operators")};
    m.finish();
  }
  d.finish();
  wrong.throw_if_any();
  return out;
}

std::string answer_text(const Answer& answer) {
  planner::Json cases = planner::Json::array();
  for (const ExecutionResult& c : answer.cases) {
    cases.push_back({{"refused", c.refused},
                     {"is_right", c.is_right},
                     {"values", values_json(c.values)},
                     {"stopped_by", c.stopped_by},
                     {"runs", runs_json(c)}});
  }
  planner::Json measured = planner::Json::array();
  for (const runtime::Measured& m : answer.measured)
    measured.push_back({m.median, m.low, m.high, m.runs, m.stopped_by});
  const Processor& p = answer.processor;
  return planner::Json{{"hosts", answer.hosts},
                       {"processor", {p.name, p.count, p.memory, p.multiprocessors, p.multiplies_fp8}},
                       {"cases", cases},
                       {"measured", measured},
                       {"clocks", clocks_text(answer.clocks)}}
      .dump();
}

Answer read_answer(const std::string& text) {
  try {
    const planner::Json j = planner::Json::parse(text);
    const planner::Json& p = j.at("processor");
    Answer out{j.at("hosts"), {p.at(0), p.at(1), p.at(2), p.at(3), p.at(4)}, {}, {}, read_clocks(j.at("clocks"))};
    for (const planner::Json& c : j.at("cases")) {
      const planner::Json& v = c.at("values");
      ExecutionResult r{c.at("refused"),
                        "",
                        c.at("is_right"),
                        {v.at("output"), v.at("gradient"), v.at("weight_gradient"), v.at("update"), v.at("rows_off"),
                         v.at("rows"), v.at("has_weights")},
                        c.at("stopped_by"),
                        {}};
      for (const planner::Json& run : c.at("runs")) {
        auto& ranks = r.runs.emplace_back();
        for (const planner::Json& edges : run) {
          auto& spans = ranks.emplace_back();
          for (std::size_t i = 0; i + 1 < edges.size(); i += 2) spans.push_back({edges[i], edges[i + 1]});
        }
      }
      out.cases.push_back(std::move(r));
    }
    for (const planner::Json& m : j.at("measured"))
      out.measured.push_back({m.at(0), m.at(1), m.at(2), m.at(3), m.at(4)});
    return out;
  } catch (const planner::Json::exception& e) {
    throw InputError(Diagnostic{{"answer of the ranks"}, "", e.what()});
  }
}

}  // namespace moeplan::validate
