#include "sim/traffic/source_rates.hpp"

#include "model/base/to_index.hpp"

namespace moeplan::sim {

namespace {

constexpr double kRateRounding = 1e-11;  // relative: sums of up to a million rates

/// The loads that the rates put on the links on ascending routes and inside blocks.
class Loads {
 public:
  Loads(const DestinationUniformShape& shape, const SourceRates& rates)
      : shape_(shape),
        f_(shape.factors),
        rates_(rates),
        out_of_block_(f_.blocks.size(), 0),
        out_of_vertex_(rates.less_up.size(), 0),
        load_(shape.capacity.size(), 0) {
    for (std::size_t b = 0; b < f_.blocks.size();) {
      std::size_t end = b + 1;
      while (f_.blocks[b].top >= 0 && end < f_.blocks.size() && f_.blocks[end].top == f_.blocks[b].top) ++end;
      if (f_.blocks[b].top >= 0) add_others(b, end, out_of_vertex_[to_index(f_.blocks[b].top)]);
      for (; b < end; ++b) add_block(b);
    }
  }

  /// Bytes/s by link.
  [[nodiscard]] const std::vector<double>& by_link() const { return load_; }

 private:
  void add_block(std::size_t b) {
    const RouteBlocks::Block& block = f_.blocks[b];
    const auto terminals = f_.terminals_of(block);
    for (std::size_t t = block.top >= 0 ? 1 : 0; t < block.terminals; ++t) {
      const auto v = to_index(terminals[t]);
      const auto behind = static_cast<double>(f_.ranks[v]);
      out_of_vertex_[v] = out_of_block_[b];
      if (block.top >= 0) add(f_.route(block, t, 0), behind * out_of_block_[b] - rates_.less_up[v]);
      if (!shape_.has_crossings(block)) continue;
      for (std::size_t u = block.top >= 0 ? 1 : 0; u < block.terminals; ++u) {
        if (u == t) continue;
        const double rate = most_across(b, t, u);
        out_of_vertex_[v] += rate;
        add(f_.route(block, t, u), behind * rate - rates_.less_across[to_index(shape_.crossing(b, t, u))]);
      }
    }
  }

  void add(std::span<const FlowUse> route, double rate) {
    for (const FlowUse& use : route) load_[use.resource.index()] += use.share * rate;
  }

  [[nodiscard]] double most_across(std::size_t b, std::size_t t, std::size_t u) const {
    const auto representative = to_index(shape_.stands_for[to_index(shape_.crossing(b, t, u))]);
    return rates_.most[to_index(shape_.crossing(b, representative, u))];
  }

  /// The rate of one source out of each of the blocks [begin, end) that share a top: what leaves that vertex, plus what
  /// enters the other blocks. Summed from both ends to avoid subtraction.
  void add_others(std::size_t begin, std::size_t end, double out_of_top) {
    double sum = 0;
    for (std::size_t b = begin; b < end; ++b) {
      out_of_block_[b] = out_of_top + sum;
      sum += rates_.most[b];
    }
    sum = 0;
    for (std::size_t b = end; b-- > begin;) {
      out_of_block_[b] += sum;
      sum += rates_.most[b];
    }
  }

  const DestinationUniformShape& shape_;
  const RouteBlocks& f_;
  const SourceRates& rates_;
  // Upper bounds on the rate of one source: out of a block through its top, and out of a vertex to all others.
  std::vector<double> out_of_block_, out_of_vertex_;
  std::vector<double> load_;
};

/// A link that is no constraint and that both ascending and descending traffic crosses, if any: the loads lack what
/// descends over it.
std::optional<ResourceId> link_of_both_directions(const DestinationUniformShape& shape) {
  for (const RouteBlocks::Block& block : shape.factors.blocks) {
    for (std::size_t u = 1; block.top >= 0 && u < block.terminals; ++u) {
      for (const FlowUse& use : shape.factors.route(block, 0, u)) {
        if (!shape.kept[use.resource.index()]) return use.resource;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ResourceId> overloaded_link(const DestinationUniformShape& shape, const SourceRates& rates) {
  if (const auto link = link_of_both_directions(shape)) return link;
  const std::vector<double> load = Loads(shape, rates).by_link();
  for (std::size_t l = 0; l < load.size(); ++l) {
    if (!shape.kept[l] && load[l] > shape.capacity[l] * (1 + kRateRounding)) return ResourceId(l);
  }
  return std::nullopt;
}

}  // namespace moeplan::sim
