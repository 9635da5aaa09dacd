#include "planner/plan/fixed_decisions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "planner/layer/all_to_all.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

namespace {

using Fix = void (*)(const Candidate&, SearchSpace&);

constexpr std::array<std::pair<std::string_view, Fix>, 20> kFixes{{
    {"schedule", [](const Candidate& c, SearchSpace& s) { s.schedule = c.schedule; }},
    {"all_to_all", [](const Candidate& c, SearchSpace& s) { s.all_to_all = c.all_to_all; }},
    {"dispatcher_sms", [](const Candidate& c, SearchSpace& s) { s.dispatcher_sms = c.dispatcher_sms; }},
    {"pipeline_degree", [](const Candidate& c, SearchSpace& s) { s.pipeline_degree = c.pipeline_degree; }},
    {"codec", [](const Candidate& c, SearchSpace& s) { s.codec = c.codec; }},
    {"placement",
     [](const Candidate& c, SearchSpace& s) {
       if (c.placement.name() != "auto") s.placements->placement = c.placement;
     }},
    {"redundant_experts",
     [](const Candidate& c, SearchSpace& s) { s.placements->redundant_experts = c.redundant_experts; }},
    {"tp", [](const Candidate& c, SearchSpace& s) { s.tp = c.degrees.tp; }},
    {"cp", [](const Candidate& c, SearchSpace& s) { s.cp = c.degrees.cp; }},
    {"ep", [](const Candidate& c, SearchSpace& s) { s.ep = c.degrees.ep; }},
    {"esp", [](const Candidate& c, SearchSpace& s) { s.esp = c.degrees.esp; }},
    {"dp", [](const Candidate& c, SearchSpace& s) { s.dp = c.degrees.dp; }},
    {"edp", [](const Candidate& c, SearchSpace& s) { s.edp = c.degrees.edp; }},
    {"pp", [](const Candidate& c, SearchSpace& s) { s.pp = c.degrees.pp; }},
    {"virtual_stages", [](const Candidate& c, SearchSpace& s) { s.virtual_stages = c.virtual_stages; }},
    {"pipeline", [](const Candidate& c, SearchSpace& s) { s.pipeline = c.pipeline; }},
    {"layout", [](const Candidate& c, SearchSpace& s) { s.layout = c.layout; }},
    {"sequence_parallel", [](const Candidate& c, SearchSpace& s) { s.sequence_parallel = c.sequence_parallel; }},
    {"ep_overlap", [](const Candidate& c, SearchSpace& s) { s.ep_overlap = c.ep_overlap; }},
    {"delay_wgrad", [](const Candidate& c, SearchSpace& s) { s.delays_weight_gradients = c.delays_weight_gradients; }},
}};

}  // namespace

std::vector<std::string> fixable_decisions() {
  std::vector<std::string> keys;
  for (const auto& [key, fix] : kFixes) keys.emplace_back(key);
  return keys;
}

void fix_decisions(const Node& decisions, SearchSpace& space, Diagnostics& wrong) {
  Node all = decision_document({});
  for (const Entry& e : decisions.entries) all.set(e.key, e.value);
  const Candidate fixed = read_decision(MapReader(all, "", wrong));
  for (const auto& [key, fix] : kFixes) {
    if (decisions.find(key)) fix(fixed, space);
  }
  if (space.dispatcher_sms > 0 && !(space.all_to_all && (*space.all_to_all)->is_dispatcher()))
    wrong.add({}, "dispatcher_sms", "is for a dispatcher; expected e.g. all_to_all: deepep");
  if (space.pipeline == PipelineShape::V && space.virtual_stages.value_or(kPartsOfV) != kPartsOfV)
    wrong.add({}, "virtual_stages",
              fmt::format("is {}; stages in a V have {} parts each", *space.virtual_stages, kPartsOfV));
  if (space.delays_weight_gradients.value_or(false) && !space.ep_overlap.value_or(false))
    wrong.add({}, "delay_wgrad", "delays what overlaps; expected ep_overlap: true too");
}

void check_dispatcher(const SearchSpace& space, const Cluster& cluster, const std::string& key) {
  if (!space.all_to_all || !(*space.all_to_all)->is_dispatcher() || has_figures(cluster, **space.all_to_all)) return;
  std::vector<std::string> measured;
  for (const auto& other : all_to_alls()) {
    if (other->is_dispatcher() && has_figures(cluster, *other)) measured.emplace_back(other->name());
  }
  throw_input_error(
      {key}, "",
      fmt::format("there are no figures of {}'s kernels on {}; those with figures: {}", space.all_to_all->name(),
                  cluster.name, measured.empty() ? "none" : fmt::format("{}", fmt::join(measured, ", "))));
}

void check_codec(const SearchSpace& space, const Workload& workload, const std::string& key) {
  if (!space.codec) return;
  std::set<WireFormat> needed = workload.codecs.allowed;
  for (const auto& format : {space.codec->dispatch, space.codec->combine}) {
    if (format) needed.insert(*format);
  }
  if (needed == workload.codecs.allowed) return;
  std::string maps;
  for (const CodecEntry& codec : codecs()) {
    if (needed.contains(codec.format)) maps += fmt::format("{}{}: {{}}", maps.empty() ? "" : ", ", codec.name);
  }
  throw_input_error({key}, "",
                    fmt::format("{} loses digits, which the workload does not allow; expected -C "
                                "'workload.codecs={{{}}}' too",
                                codec_pair_name(*space.codec), maps));
}

}  // namespace moeplan::planner
