#include "model/workload/routing.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace moeplan {

RoutingScenario read_routing(MapReader routing) {
  constexpr double kSteepestZipf = 20, kHottest = 1e6;
  RoutingScenario s;
  if (routing.find("stage")) {
    s.shape = RoutingShape::Lognormal;
    s.lognormal_sigma = lognormal_sigma_of(routing.choice<RoutingStage>("stage", kRoutingStageNames));
    for (const char* key : {"shape", "lognormal_sigma", "max_load"}) {
      if (routing.find(key)) routing.complain(key, "has no place next to a stage, which has its own");
    }
  } else {
    s.shape = routing.choice<RoutingShape>("shape", kRoutingShapeNames);
    s.lognormal_sigma = routing.number_or("lognormal_sigma", s.lognormal_sigma, 0, kWidestSigma);
    if (routing.find("max_load")) {
      s.max_load = routing.number("max_load", 1, kHottest);
      if (s.shape != RoutingShape::Lognormal) routing.complain("max_load", "is of lognormal loads only");
      if (routing.find("lognormal_sigma"))
        routing.complain("lognormal_sigma", "follows from max_load; expected one of them");
    }
  }
  s.zipf_exponent = routing.number_or("zipf_exponent", s.zipf_exponent, 0, kSteepestZipf);
  s.hot_fraction = routing.number_or("hot_fraction", s.hot_fraction, 0, 1);
  s.hot_factor = routing.number_or("hot_factor", s.hot_factor, 1, kHottest);
  s.ragged_spread = routing.number_or("ragged_spread", s.ragged_spread, 0, 1);
  s.sampled = routing.boolean_or("sampled", s.sampled);
  s.seed = static_cast<std::uint64_t>(routing.integer_or("seed", static_cast<std::int64_t>(s.seed), 0));
  if (s.sampled && s.shape == RoutingShape::Balanced) {
    routing.complain("sampled", "balanced routing leaves nothing to draw; take uniform, or sampled: false");
  }
  routing.finish();
  return s;
}

Node routing_document(const RoutingScenario& s) {
  Node out = Node::map();
  out.set("shape", Node::text(std::string(name_of<RoutingShape>(kRoutingShapeNames, s.shape))));
  out.set("zipf_exponent", Node::number(s.zipf_exponent));
  s.max_load ? out.set("max_load", Node::number(*s.max_load))
             : out.set("lognormal_sigma", Node::number(s.lognormal_sigma));
  out.set("hot_fraction", Node::number(s.hot_fraction));
  out.set("hot_factor", Node::number(s.hot_factor));
  out.set("ragged_spread", Node::number(s.ragged_spread));
  out.set("sampled", Node::boolean(s.sampled));
  out.set("seed", Node::integer(static_cast<long long>(s.seed)));
  return out;
}

std::shared_ptr<const RoutingCounts::Table> RoutingCounts::table(std::vector<std::int64_t> counts) {
  static const auto kEmpty = std::make_shared<const Table>();
  return counts.empty() ? kEmpty : std::make_shared<const Table>(Table{std::move(counts), {}});
}

RoutingCounts RoutingCounts::uniform(std::int64_t sources, std::int64_t experts, std::int64_t count) {
  assert(sources > 0 && experts > 0 && count >= 0 && "counts are of something, and not negative");
  RoutingCounts counts;
  counts.sources_ = sources;
  counts.experts_ = experts;
  counts.table_ = table({count});
  return counts;
}

RoutingCounts RoutingCounts::by_expert(std::int64_t sources, std::vector<std::int64_t> row) {
  assert(!row.empty() && "a row has a count for every expert");
  RoutingCounts counts = uniform(sources, static_cast<std::int64_t>(row.size()), row.front());
  const bool all_equal = std::all_of(row.begin(), row.end(), [&](std::int64_t c) { return c == row.front(); });
  if (!all_equal) counts.table_ = table(std::move(row));
  return counts;
}

RoutingCounts RoutingCounts::dense(std::int64_t sources, std::int64_t experts, std::vector<std::int64_t> counts) {
  assert(sources > 0 && experts > 0 && "counts are of something");
  assert(counts.size() == static_cast<std::size_t>(sources * experts) && "one count a source and expert");
  // All rows are equal if and only if everything except the last row equals everything except the first.
  if (std::equal(counts.begin(), counts.end() - experts, counts.begin() + experts)) {
    counts.resize(static_cast<std::size_t>(experts));
    return by_expert(sources, std::move(counts));
  }
  Table table{std::move(counts), {}};
  const auto columns = static_cast<std::size_t>(experts) + 1;
  table.before.resize(static_cast<std::size_t>(sources + 1) * columns);
  std::size_t next = 0;
  for (std::size_t at = columns; at < table.before.size(); at += columns) {
    std::int64_t of_row = 0;
    for (std::size_t e = 1; e < columns; ++e) {
      of_row += table.counts[next++];
      table.before[at + e] = table.before[at + e - columns] + of_row;
    }
  }
  RoutingCounts result = uniform(sources, experts, 0);
  result.rows_ = sources;
  result.table_ = std::make_shared<const Table>(std::move(table));
  return result;
}

RoutingCounts RoutingCounts::of_first(std::int64_t sources) const {
  assert(sources > 0 && sources <= sources_ && "it has them");
  RoutingCounts first = *this;
  first.sources_ = sources;
  if (same_for_all_sources()) return first;
  const std::vector<std::int64_t>& all = counts();
  const auto rest = static_cast<std::ptrdiff_t>((sources - 1) * experts_);
  if (std::equal(all.begin(), all.begin() + rest, all.begin() + experts_))
    return by_expert(sources, {all.begin(), all.begin() + experts_});
  first.rows_ = sources;
  return first;
}

bool RoutingCounts::operator==(const RoutingCounts& other) const {
  if (sources_ != other.sources_ || experts_ != other.experts_ || used() != other.used()) return false;
  const auto end = counts().begin() + static_cast<std::ptrdiff_t>(std::min(used(), counts().size()));
  return table_ == other.table_ || std::equal(counts().begin(), end, other.counts().begin());
}

std::vector<std::int64_t> RoutingCounts::expert_load() const {
  const auto experts = static_cast<std::size_t>(experts_);
  if (is_uniform()) return std::vector<std::int64_t>(experts, counts()[0] * sources_);
  std::vector<std::int64_t> load(experts, 0);
  for (std::size_t i = 0; i < used(); ++i) load[i % experts] += counts()[i];
  if (rows_ == 1) {
    for (std::int64_t& tokens : load) tokens *= sources_;
  }
  return load;
}

}  // namespace moeplan
