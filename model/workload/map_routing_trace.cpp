// Mapping of a trace to another number of ranks or experts.
#include <fmt/format.h>

#include "model/base/whole_numbers.hpp"
#include "model/text/reader.hpp"
#include "model/workload/routing_trace.hpp"

namespace moeplan {

namespace {

/// Raises InputError unless `rule` maps `from` sources or experts to `to`.
void check(std::int64_t from, std::int64_t to, TraceMapping rule, bool may_repeat, const char* things,
           const std::string& name) {
  const bool fits = rule == TraceMapping::None    ? from == to
                    : rule == TraceMapping::Sum   ? to > 0 && from % to == 0
                    : rule == TraceMapping::Split ? to % from == 0
                                                  : may_repeat && to % from == 0;
  if (fits && to > 0) return;
  const std::string_view rule_name = name_of<TraceMapping>(kTraceMappingNames, rule);
  throw InputError({{name},
                    "",
                    fmt::format("has {} {}, not {}, and the rule \"{}\" does not lead there; rules: sum to a divisor, "
                                "split{} to a multiple",
                                from, things, to, rule_name, may_repeat ? " or repeat" : "")});
}

void check_size(const RoutingTrace& trace, std::int64_t sources, std::int64_t experts, const std::string& name) {
  const auto rows = static_cast<double>(trace.iterations().size()) * static_cast<double>(trace.layers());
  if (rows * static_cast<double>(sources) * static_cast<double>(experts) <= static_cast<double>(kMostTraceCounts))
    return;
  throw InputError({{name}, "", fmt::format("would have more than {} counts", kMostTraceCounts)});
}

/// The mapped trace, with counts given by a function of (iteration, layer, source, expert).
template <class Count>
RoutingTrace filled(const RoutingTrace& t, std::int64_t sources, std::int64_t experts, const Count& count) {
  std::vector<std::uint32_t> counts;
  counts.reserve(t.iterations().size() * static_cast<std::size_t>(t.layers() * sources * experts));
  for (std::size_t i = 0; i < t.iterations().size(); ++i) {
    for (std::int64_t layer = 0; layer < t.layers(); ++layer) {
      for (std::int64_t s = 0; s < sources; ++s) {
        for (std::int64_t e = 0; e < experts; ++e) counts.push_back(static_cast<std::uint32_t>(count(i, layer, s, e)));
      }
    }
  }
  return {{t.iterations().begin(), t.iterations().end()}, t.layers(), sources, experts, std::move(counts)};
}

void refuse_overflow(std::int64_t sum, const std::string& name) {
  if (sum > UINT32_MAX) throw InputError({{name}, "", fmt::format("counts would add up to more than {}", UINT32_MAX)});
}

}  // namespace

RoutingTrace with_sources(const RoutingTrace& t, std::int64_t sources, TraceMapping rule, const std::string& name) {
  check(t.sources(), sources, rule, true, "ranks", name);
  check_size(t, sources, t.experts(), name);
  if (sources == t.sources()) return t;
  const auto at = [&](std::size_t i, std::int64_t layer, std::int64_t source, std::int64_t e) {
    return std::int64_t{t.row(i, layer, RankId(static_cast<std::int32_t>(source)))[static_cast<std::size_t>(e)]};
  };
  if (rule == TraceMapping::Sum) {
    const std::int64_t each = t.sources() / sources;
    return filled(t, sources, t.experts(), [&](std::size_t i, std::int64_t layer, std::int64_t s, std::int64_t e) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < each; ++k) sum += at(i, layer, s * each + k, e);
      refuse_overflow(sum, name);
      return sum;
    });
  }
  const std::int64_t each = sources / t.sources();
  return filled(t, sources, t.experts(), [&](std::size_t i, std::int64_t layer, std::int64_t s, std::int64_t e) {
    const std::int64_t whole = at(i, layer, s / each, e);
    if (rule == TraceMapping::Repeat) return whole;
    // The remainder of expert e goes to other parts than that of expert 0, so that the parts stay about equal.
    return whole / each + ((s + each - e % each) % each < whole % each ? 1 : 0);
  });
}

RoutingTrace with_experts(const RoutingTrace& t, std::int64_t experts, TraceMapping rule, const std::string& name) {
  check(t.experts(), experts, rule, false, "experts", name);
  check_size(t, t.sources(), experts, name);
  if (experts == t.experts()) return t;
  return filled(t, t.sources(), experts, [&](std::size_t i, std::int64_t layer, std::int64_t s, std::int64_t e) {
    const auto row = t.row(i, layer, RankId(static_cast<std::int32_t>(s)));
    if (rule == TraceMapping::Sum) {
      const std::int64_t each = t.experts() / experts;
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < each; ++k) sum += row[static_cast<std::size_t>(e * each + k)];
      refuse_overflow(sum, name);
      return sum;
    }
    const std::int64_t each = experts / t.experts();
    return part(row[static_cast<std::size_t>(e / each)], each - 1 - e % each, each);
  });
}

}  // namespace moeplan
