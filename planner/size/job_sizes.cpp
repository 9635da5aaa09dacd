#include "planner/size/job_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <variant>

#include "planner/lowering/feasibility.hpp"
#include "planner/search/enumeration.hpp"

namespace moeplan::planner {

namespace {

std::vector<std::int64_t> divisors_up_to(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) out.push_back(d);
  }
  return out;
}

/// A fixed degree if it divides `n`, else all divisors up to `most`.
std::vector<std::int64_t> degrees_of(const std::optional<std::int64_t>& fixed, std::int64_t n, std::int64_t most) {
  if (!fixed) return divisors_up_to(n, most);
  return n % *fixed == 0 ? std::vector{*fixed} : std::vector<std::int64_t>{};
}

/// Of those that a job of `gpus` uses.
std::int64_t largest_node(const ClusterSpec& cluster, std::int64_t gpus) {
  if (const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine)) return used_per_node(*machine, gpus);
  std::int64_t last = 0, most = 1;
  for (const std::int64_t so_far : whole_nodes(cluster, kMostWorld)) {
    most = std::max(most, so_far - last);
    last = so_far;
  }
  return most;
}

/// The search in its two directions.
class FewestSearch {
 public:
  FewestSearch(const JobSizes& sizes, std::int64_t most_tried, const std::function<SizeOutcome(std::int64_t)>& outcome)
      : sizes_(sizes), most_tried_(most_tried), outcome_(outcome) {}

  FewestSize from(double start) {
    go_up(start);
    if (!found_) return {.gpus = std::nullopt};
    while (std::ssize(tried_) < most_tried_) {
      const auto next = next_below();
      if (!next) break;
      attempt(*next);
    }
    return {.gpus = found_,
            .untried = std::ssize(left_below()),
            .excluded = least_needed_ ? sizes_.excluded(*least_needed_, end_of_smaller()) : 0};
  }

 private:
  SizeOutcome attempt(std::int64_t gpus) {
    const SizeOutcome o = outcome_(gpus);
    tried_.insert(gpus);
    if (o.needed) least_needed_ = std::min(least_needed_.value_or(*o.needed), *o.needed);
    if (o.suffices) found_ = std::min(found_.value_or(gpus), gpus);
    if (!o.suffices) missed_.insert(gpus);
    return o;
  }

  void go_up(double start) {
    double step = 0.01;  // of the last size, twice as much after every miss
    for (auto next = at_least_or_largest(start); next && std::ssize(tried_) < most_tried_;) {
      const SizeOutcome o = attempt(*next);
      if (found_) return;
      const auto last = static_cast<double>(*next);
      step *= 2;
      next = at_least_or_largest(std::max({o.needed.value_or(2 * last), last + 1, last * (1 + std::min(step, 1.0))}));
      if (next && tried_.contains(*next)) return;
    }
  }

  [[nodiscard]] std::optional<std::int64_t> at_least_or_largest(double gpus) const {
    const auto size = sizes_.at_least(gpus);
    return size ? size : sizes_.at_most(std::numeric_limits<double>::max());
  }

  /// The end of sizes that are so much smaller than the one found that they matter.
  [[nodiscard]] std::int64_t end_of_smaller() const {
    return static_cast<std::int64_t>(static_cast<double>(*found_) * (1 - kSizeResolution)) + 1;
  }

  /// Smaller sizes that may suffice: at the best throughput per GPU of all that were tried.
  [[nodiscard]] std::vector<std::int64_t> left_below() const {
    std::vector<std::int64_t> out = sizes_.between(least_needed_.value_or(0), end_of_smaller());
    std::erase_if(out, [&](std::int64_t gpus) { return tried_.contains(gpus); });
    const auto above_misses = missed_.lower_bound(*found_);
    // Where nothing is known of throughput, sizes below one that misses do, too.
    if (!least_needed_ && above_misses != missed_.begin())
      std::erase_if(out, [&](std::int64_t gpus) { return gpus < *std::prev(above_misses); });
    return out;
  }

  /// The middle of those above the largest miss, else the largest of the others.
  [[nodiscard]] std::optional<std::int64_t> next_below() const {
    const std::vector<std::int64_t> left = left_below();
    if (left.empty()) return std::nullopt;
    const auto above_misses = missed_.lower_bound(*found_);
    const std::int64_t miss = above_misses == missed_.begin() ? 0 : *std::prev(above_misses);
    const auto first = std::upper_bound(left.begin(), left.end(), miss);
    return first == left.end() ? left.back() : *(first + (left.end() - first) / 2);
  }

  const JobSizes& sizes_;
  std::int64_t most_tried_;
  const std::function<SizeOutcome(std::int64_t)>& outcome_;
  std::set<std::int64_t> tried_, missed_;
  std::optional<std::int64_t> found_;
  std::optional<double> least_needed_;
};

}  // namespace

std::optional<std::int64_t> JobSizes::at_least(double gpus) const {
  auto it = std::lower_bound(every_.begin(), every_.end(), gpus,
                             [](std::int64_t size, double wanted) { return static_cast<double>(size) < wanted; });
  while (it != every_.end() && !allows_(*it)) ++it;
  return it == every_.end() ? std::nullopt : std::optional(*it);
}

std::optional<std::int64_t> JobSizes::at_most(double gpus) const {
  auto it = std::upper_bound(every_.begin(), every_.end(), gpus,
                             [](double wanted, std::int64_t size) { return wanted < static_cast<double>(size); });
  while (it != every_.begin() && !allows_(*std::prev(it))) --it;
  return it == every_.begin() ? std::nullopt : std::optional(*std::prev(it));
}

std::vector<std::int64_t> JobSizes::between(double least, std::int64_t end) const {
  std::vector<std::int64_t> out;
  for (const std::int64_t gpus : every_) {
    if (static_cast<double>(gpus) >= least && gpus < end && allows_(gpus)) out.push_back(gpus);
  }
  return out;
}

std::int64_t JobSizes::excluded(double least, std::int64_t end) const {
  return std::count_if(every_.begin(), every_.end(), [&](std::int64_t gpus) {
    return static_cast<double>(gpus) >= least && gpus < end && !allows_(gpus);
  });
}

std::vector<std::int64_t> whole_nodes(const ClusterSpec& cluster, std::int64_t most) {
  std::vector<std::int64_t> out;
  if (const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine)) {
    const std::int64_t nodes = machine->fabric ? kMostWorld : machine->nodes;
    const std::int64_t gpus = machine->used_per_node.value_or(machine->gpus_per_node);
    for (std::int64_t n = 1; n <= nodes && n * gpus <= most; ++n) out.push_back(n * gpus);
    return out;
  }
  std::map<int, std::int64_t> gpus_of_node;
  for (const Vertex& v : std::get<Topology>(cluster.machine).vertices) {
    if (v.kind == VertexKind::Gpu) ++gpus_of_node[v.node.value_or(0)];
  }
  std::int64_t total = 0;
  for (const auto& [node, gpus] : gpus_of_node) {
    total += gpus;
    if (total <= most) out.push_back(total);
  }
  return out;
}

std::vector<std::int64_t> nodes_and_parts(const ClusterSpec& cluster, std::int64_t most, std::int64_t most_part) {
  std::vector<std::int64_t> out = whole_nodes(cluster, most);
  const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine);
  if (!machine || !is_rack(*machine)) return out;
  for (std::int64_t gpus = 1; gpus <= std::min(most, most_part); gpus *= 2) out.push_back(gpus);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool divides_job(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus) {
  const std::int64_t layers = inputs.model.num_layers(), node = largest_node(inputs.cluster, gpus);
  for (const std::int64_t pp : degrees_of(space.pp, gpus, std::max(layers, std::ssize(space.layout.parts)))) {
    for (const std::int64_t cp : degrees_of(space.cp, gpus / pp, most_context_parallel(inputs.workload))) {
      for (const std::int64_t tp : degrees_of(space.tp, gpus / pp / cp, node)) {
        const std::int64_t dp = gpus / pp / cp / tp;
        if (inputs.workload.global_batch % dp != 0 || (space.dp && *space.dp != dp)) continue;
        Candidate c;
        c.degrees = {.pp = pp, .dp = dp, .cp = cp, .tp = tp, .edp = dp * cp * tp};
        c.layout = space.layout;
        c.virtual_stages = space.layout.empty() ? 1 : std::max<std::int64_t>(1, std::ssize(space.layout.parts) / pp);
        if (!infeasibility(inputs.model, inputs.workload, c, node)) return true;
      }
    }
  }
  return false;
}

std::int64_t largest_part(const ClusterSpec& cluster) {
  const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine);
  return machine && is_rack(*machine) && !machine->used_per_node ? machine->gpus_per_node / 2 : 0;
}

JobSizes job_sizes(const Inputs& inputs, const SearchSpace& space, std::int64_t most) {
  return {nodes_and_parts(inputs.cluster, most, largest_part(inputs.cluster)),
          [&inputs, &space](std::int64_t gpus) { return divides_job(inputs, space, gpus); }};
}

FewestSize fewest_size(const JobSizes& sizes, double start, std::int64_t most_tried,
                       const std::function<SizeOutcome(std::int64_t)>& outcome) {
  return FewestSearch(sizes, most_tried, outcome).from(start);
}

}  // namespace moeplan::planner
