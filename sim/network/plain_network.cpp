#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "sim/network/max_min.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class PlainNetwork final : public Network {
 public:
  ResourceId add_resource(double capacity_bytes_per_s) override {
    assert(capacity_bytes_per_s > 0 && "a resource has a positive capacity");
    capacity_.push_back(capacity_bytes_per_s);
    carried_.push_back(0);
    return ResourceId(capacity_.size() - 1);
  }

  void set_capacity(ResourceId resource, double capacity_bytes_per_s, double now) override {
    assert(capacity_bytes_per_s > 0 && "a resource has a positive capacity");
    move_to(now);
    capacity_[resource.index()] = capacity_bytes_per_s;
    stale_ = true;
  }

  FlowId start(std::span<const FlowUse> uses, double bytes, double weight, double now) override {
    assert(now >= now_ && "time does not go back");
    assert(bytes >= 0 && std::isfinite(bytes) && weight > 0 && "a flow has bytes and a positive weight");
    move_to(now);
    flows_.push_back({FlowId(started_++), {uses.begin(), uses.end()}, bytes, bytes, weight, 0});
    stale_ = true;
    return flows_.back().id;
  }

  std::optional<double> next_completion() override {
    solve();
    double earliest = kNever;
    for (const Flow& f : flows_) earliest = std::min(earliest, end(f));
    if (flows_.empty()) return std::nullopt;
    return earliest;
  }

  void advance(double now, std::vector<FlowId>& completed) override {
    assert(now >= now_ && "time does not go back");
    const double latest = now + coincidence(now);
    CompletionOrder order;
    for (auto t = next_completion(); t && *t <= latest; t = next_completion()) {
      const double at = std::min(*t, now);
      const double last = at + coincidence(at);
      std::vector<bool> ended(flows_.size());
      for (std::size_t i = 0; i < flows_.size(); ++i) ended[i] = end(flows_[i]) <= last;
      move_to(at);
      order.begin_event(at, completed);
      std::vector<Flow> left;
      for (std::size_t i = 0; i < flows_.size(); ++i) {
        if (!ended[i]) {
          left.push_back(std::move(flows_[i]));
          continue;
        }
        completed.push_back(flows_[i].id);
        for (const FlowUse& use : flows_[i].uses) {
          carried_[use.resource.index()] += flows_[i].weight * use.share * flows_[i].bytes;
        }
      }
      order.end_event(completed);
      flows_ = std::move(left);
      stale_ = true;
    }
    move_to(now);
  }

  double bytes_carried(ResourceId resource) const override {
    double sum = carried_[resource.index()];
    for (const Flow& f : flows_) {
      for (const FlowUse& use : f.uses) {
        if (use.resource == resource) sum += f.weight * use.share * (f.bytes - f.remaining);
      }
    }
    return sum;
  }

  std::vector<RunningFlow> running() override {
    solve();
    std::vector<RunningFlow> list;
    for (const Flow& f : flows_) list.push_back({f.id, f.rate, f.remaining});
    return list;
  }

 private:
  struct Flow {
    FlowId id;
    std::vector<FlowUse> uses;
    double bytes;
    double remaining;
    double weight;
    double rate;
  };

  double end(const Flow& f) const { return f.remaining == 0 || f.rate == kNever ? now_ : now_ + f.remaining / f.rate; }

  void move_to(double now) {
    if (now == now_) return;
    solve();
    for (Flow& f : flows_) f.remaining = std::max(0.0, f.remaining - f.rate * (now - now_));
    now_ = now;
  }

  void solve() {
    if (!stale_) return;
    stale_ = false;
    std::vector<double> weight;
    std::vector<std::int32_t> first{0};
    std::vector<std::int32_t> resource;
    std::vector<double> share;
    for (const Flow& f : flows_) {
      if (f.remaining > 0) {
        for (const FlowUse& use : f.uses) {
          resource.push_back(use.resource.value());
          share.push_back(use.share);
        }
      }
      weight.push_back(f.weight);
      first.push_back(static_cast<std::int32_t>(resource.size()));
    }
    const std::vector<double> rate = max_min_rates({capacity_, weight, first, resource, share});
    for (std::size_t i = 0; i < flows_.size(); ++i) flows_[i].rate = rate[i];
  }

  std::vector<double> capacity_;
  std::vector<double> carried_;  // by flows that have ended
  std::vector<Flow> flows_;      // by FlowId
  std::size_t started_ = 0;
  double now_ = 0;
  bool stale_ = false;
};

}  // namespace

void CompletionOrder::begin_event(double time, const std::vector<FlowId>& completed) {
  if (time != time_) first_ = completed.size();
  time_ = time;
}

void CompletionOrder::end_event(std::vector<FlowId>& completed) const {
  std::sort(completed.begin() + static_cast<std::ptrdiff_t>(first_), completed.end());
}

double coincidence(double t) {
  const double last_bits = 4 * std::numeric_limits<double>::epsilon() * t;
  return std::max(last_bits, std::min(1e-12 * t, 0.25e-12));
}

std::unique_ptr<Network> make_plain_network() { return std::make_unique<PlainNetwork>(); }

}  // namespace moeplan::sim
