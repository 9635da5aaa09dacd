#include "sim/traffic/subtree_classes.hpp"

#include "model/base/to_index.hpp"

namespace moeplan::sim {

namespace {

constexpr double kMostUses = 2e9;                               // links on the paths of all classes: some seconds
constexpr std::size_t kMostSubtreeUses = std::size_t{1} << 26;  // of one subtree: 1 GiB

}  // namespace

SubtreeClasses::SubtreeClasses(const DestinationUniformShape& shape, std::span<const double> bytes)
    : shape_(shape),
      f_(shape.factors),
      bytes_(bytes),
      uses_left_(kMostUses),
      local_link_(shape.capacity.size(), -1),
      local_sum_(shape.sums, -1) {}

const SubtreeTraffic& SubtreeClasses::build(const std::vector<RankId>& subtree) {
  for (const Index l : links_) local_link_[to_index(l)] = -1;
  for (const Index s : sums_) local_sum_[to_index(s)] = -1;
  links_.clear();
  sums_.clear();
  slots_.clear();
  slot_vertices_.clear();
  class_dst_.clear();
  traffic_ = {};
  for (const RankId d : subtree) {
    if (bytes_[d.index()] > 0) add_destination(d);
  }
  return traffic_;
}

void SubtreeClasses::add_destination(RankId d) {
  const std::size_t first = traffic_.classes.size();
  path_.clear();
  Index v = shape_.gpu(d).value();
  while (f_.block_of[to_index(v)] >= 0) {
    const auto b = to_index(f_.block_of[to_index(v)]);
    const RouteBlocks::Block& block = f_.blocks[b];
    const std::size_t u = to_index(f_.place_of[to_index(v)]);
    if (shape_.has_crossings(block)) add_crossings(d, b, u);
    if (block.top < 0) break;
    SubtreeClasses::append_kept(f_.route(block, 0, u), 1);
    const auto joining = static_cast<double>(f_.ranks[to_index(block.top)] - block.ranks);
    SubtreeClasses::add_class(d, joining, static_cast<Index>(b));
    v = block.top;
  }
  for (const DestinationUniformShape::NearJoin& n : shape_.near_of(d)) note_near(n, first);
}

void SubtreeClasses::add_crossings(RankId d, std::size_t b, std::size_t u) {
  const RouteBlocks::Block& block = f_.blocks[b];
  const auto terminals = f_.terminals_of(block);
  const std::size_t common = path_.size();
  for (std::size_t t = block.top >= 0 ? 1 : 0; t < block.terminals; ++t) {
    const Index sum = shape_.crossing(b, t, u);
    if (t == u || shape_.stands_for[to_index(sum)] != static_cast<Index>(t)) continue;
    const auto members = static_cast<double>(shape_.members[to_index(sum)]);
    SubtreeClasses::append_kept(f_.route(block, t, u), 1 / members);
    SubtreeClasses::add_class(d, members * static_cast<double>(f_.ranks[to_index(terminals[t])]), sum);
    path_.resize(common);
  }
}

void SubtreeClasses::append_kept(std::span<const FlowUse> route, double part) {
  for (const FlowUse& use : route) {
    if (!shape_.kept[use.resource.index()]) continue;
    Index& local = local_link_[use.resource.index()];
    if (local < 0) {
      local = static_cast<Index>(links_.size());
      links_.push_back(use.resource.value());
      traffic_.capacity.push_back(shape_.capacity[use.resource.index()]);
    }
    path_.push_back({ResourceId(local), use.share * part});
  }
}

void SubtreeClasses::add_class(RankId d, double flows, Index sum) {
  uses_left_ -= static_cast<double>(path_.size());
  if (uses_left_ < 0 || traffic_.uses.size() + path_.size() > kMostSubtreeUses) {
    throw TooManyColumns{"its parts have too many flows that differ"};
  }
  for (const DestinationUniformShape::NearJoin& n : shape_.near_of(d)) flows -= n.sum == sum ? 1 : 0;
  if (flows <= 0) return;
  Index& local = local_sum_[to_index(sum)];
  if (local < 0) {
    local = traffic_.sums++;
    sums_.push_back(sum);
  }
  traffic_.classes.push_back({bytes_[d.index()], flows, static_cast<std::uint32_t>(traffic_.uses.size()),
                              static_cast<std::uint32_t>(path_.size()), local});
  traffic_.uses.insert(traffic_.uses.end(), path_.begin(), path_.end());
  class_dst_.push_back(d);
}

void SubtreeClasses::note_near(const DestinationUniformShape::NearJoin& n, std::size_t first_class) {
  const Index local = local_sum_[to_index(n.sum)];
  std::size_t c = first_class;
  while (c < traffic_.classes.size() && traffic_.classes[c].sum != local) ++c;
  if (local < 0 || c == traffic_.classes.size()) return;
  for (const Index v : shape_.steps_of(n)) {
    const auto key = static_cast<std::uint64_t>(v) << 32U | static_cast<std::uint32_t>(local);
    const auto [it, is_new] = slots_.try_emplace(key, traffic_.slots.size());
    if (is_new) {
      traffic_.slots.push_back({static_cast<double>(f_.ranks[to_index(v)]), local, {}});
      slot_vertices_.push_back(v);
    }
    traffic_.slots[it->second].without.push_back(static_cast<Index>(c));
  }
}

void SubtreeClasses::add_peaks(const SubtreeResult& result, SourceRates& rates) const {
  for (std::size_t s = 0; s < sums_.size(); ++s) rates.most[to_index(sums_[s])] = result.most[s];
  for (std::size_t i = 0; i < slot_vertices_.size(); ++i) {
    const auto& slot = traffic_.slots[i];
    const Index sum = sums_[to_index(slot.sum)], vertex = slot_vertices_[i];
    const double less = slot.factor * result.most[to_index(slot.sum)] - result.slot_most[i];
    (is_across(vertex, sum) ? rates.less_across[to_index(sum)] : rates.less_up[to_index(vertex)]) += less;
  }
}

bool SubtreeClasses::is_across(Index vertex, Index sum) const {
  const Index b = f_.block_of[to_index(vertex)];
  if (to_index(sum) < f_.blocks.size() || to_index(sum) < shape_.first_crossing[to_index(b)]) return false;
  const RouteBlocks::Block& block = f_.blocks[to_index(b)];
  return to_index(sum) < shape_.first_crossing[to_index(b)] + std::size_t{block.terminals} * block.terminals &&
         shape_.has_crossings(block);
}

}  // namespace moeplan::sim
