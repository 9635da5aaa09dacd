#include "model/machine/rank_routes.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "model/machine/cluster.hpp"

namespace moeplan {

namespace {

struct Part {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Route> routes;  // by both ranks; its references stay valid
};

}  // namespace

struct RankRoutes::State {
  std::array<Part, 64> parts;  // by sender, so that threads rarely wait for each other
};

RankRoutes::RankRoutes() : state_(std::make_unique<State>()) {}
RankRoutes::~RankRoutes() = default;
RankRoutes::RankRoutes(RankRoutes&&) noexcept = default;
RankRoutes& RankRoutes::operator=(RankRoutes&&) noexcept = default;

const Route& RankRoutes::between(const Cluster& cluster, RankId from, RankId to) const {
  Part& part = state_->parts[from.index() % state_->parts.size()];
  const auto key = static_cast<std::uint64_t>(from.value()) << 32U | static_cast<std::uint32_t>(to.value());
  const std::lock_guard lock(part.mutex);
  const auto [it, is_new] = part.routes.try_emplace(key);
  if (is_new) it->second = cluster.route(from, to);
  return it->second;
}

}  // namespace moeplan
