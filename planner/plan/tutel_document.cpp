#include "planner/plan/tutel_document.hpp"

#include <limits>

namespace moeplan::planner {

namespace {

Node entry_document(const TutelEntry& e) {
  Node n = Node::map();
  n.set("key", Node::integer(e.key));
  n.set("capacity", Node::integer(e.capacity));
  n.set("adaptive", Node::integer(e.best.r));
  n.set("pipeline_degree", Node::integer(e.best.pipeline_degree));
  n.set("all_to_all", Node::text(e.best.all_to_all));
  n.set("layer_ps", Node::integer(e.time.picoseconds()));
  n.set("layer_s", Node::number(e.time.seconds().value()));
  n.set("trials", Node::integer(e.trials));
  return n;
}

TutelEntry read_entry(MapReader r) {
  constexpr double kMostSeconds = 1e6;
  TutelEntry e;
  e.key = r.integer("key", 0);
  e.capacity = r.integer("capacity", 0);
  e.best.r = r.integer("adaptive", 0);
  e.best.pipeline_degree = r.integer("pipeline_degree", 1);
  e.best.all_to_all = r.text("all_to_all");
  e.time = SimTime(r.integer("layer_ps", 0, std::numeric_limits<std::int64_t>::max() / 2));
  (void)r.number("layer_s", 0, kMostSeconds);
  e.trials = r.integer("trials", 0);
  r.finish();
  return e;
}

}  // namespace

Node tutel_document(const std::vector<TutelDictionary>& dictionaries) {
  Node list = Node::list();
  for (const TutelDictionary& d : dictionaries) {
    Node n = Node::map();
    n.set("window", Node::integer(d.window));
    n.set("experts", Node::integer(d.experts));
    n.set("most_adaptive", Node::integer(d.most_adaptive));
    n.set("most_trials", Node::integer(d.most_trials));
    Node& entries = n.set("entries", Node::list());
    for (const TutelEntry& e : d.entries) entries.items.push_back(entry_document(e));
    list.items.push_back(std::move(n));
  }
  return list;
}

std::vector<TutelDictionary> read_tutel(MapReader& plan, std::string_view key) {
  std::vector<TutelDictionary> out;
  for (const auto& [node, path] : plan.list_or_empty(key)) {
    MapReader r(*node, path, plan.diagnostics());
    TutelDictionary d;
    d.window = r.integer("window", 1);
    d.experts = r.integer("experts", 1);
    d.most_adaptive = r.integer("most_adaptive", 1);
    d.most_trials = r.integer("most_trials", 1);
    for (const auto& [entry, entry_path] : r.list("entries")) {
      d.entries.push_back(read_entry(MapReader(*entry, entry_path, plan.diagnostics())));
    }
    r.finish();
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace moeplan::planner
