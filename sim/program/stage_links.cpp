#include "sim/program/stage_links.hpp"

#include <algorithm>

#include "sim/flows/rank_classes.hpp"

namespace moeplan::sim {

StageLinks::StageLinks(const StageSegments& stages, StageClusters& machines, std::int64_t ranks_per_stage,
                       bool are_asked_for)
    : stages_(stages), machines_(machines), ranks_(ranks_per_stage), period_(period(are_asked_for)) {
  for (std::int64_t s = 0; s < period_; ++s)
    machines_of_.push_back(static_cast<std::size_t>(machines_.equivalent(count(), s).stage));
}

/// The period of equivalent stages; the number of stages if it is not known which links of two of them correspond, but
/// these are asked for.
std::int64_t StageLinks::period(bool are_asked_for) const {
  const std::int64_t period = machines_.period(count());
  if (!are_asked_for || period == count()) return period;
  return shifted_links(machines_.cluster(), period * ranks_) ? period : count();
}

StageLinks::Watched StageLinks::watched(const std::vector<LinkId>& links) {
  Watched out{std::vector<std::vector<LinkId>>(stages_.order.size()),
              std::vector<std::vector<Watched::OfStage>>(stages_.order.size())};
  if (links.empty()) return out;
  std::map<LinkId, std::size_t> index;
  for (std::size_t i = 0; i < links.size(); ++i) index.emplace(links[i], i);
  for_each_stage([&](std::size_t stage, const OfStage& own) {
    std::vector<LinkId>& of_machine = out.by_machine[machine(stage)];
    for (std::size_t l = 0; l < own.links.size(); ++l) {
      const auto it = index.find(own.links[l]);
      if (it == index.end()) continue;
      const auto known = std::find(of_machine.begin(), of_machine.end(), LinkId(l));
      out.by_stage[stage].push_back({static_cast<std::size_t>(known - of_machine.begin()), it->second});
      if (known == of_machine.end()) of_machine.emplace_back(l);
    }
  });
  return out;
}

/// The links of one of the first stages in the whole cluster, by LinkId in the sub-cluster of machine(stage).
std::vector<LinkId> StageLinks::links_of(std::size_t stage) const {
  const auto s = static_cast<std::int64_t>(stage);
  const std::vector<LinkId>& own = machines_.of(count(), s).links;
  if (machine(stage) == stage) return own;
  std::vector<LinkId> out = machines_.equivalent(count(), s).links;
  for (LinkId& link : out) link = link.value() < 0 ? link : own[link.index()];
  return out;
}

/// Moves to the stage that is one period after this one.
void StageLinks::shift(OfStage& stage) const {
  const LinkImages& images = *shifted_links(machines_.cluster(), period_ * ranks_);
  for (LinkId& link : stage.links) link = link.value() < 0 ? link : images.of(link);
  for (auto& [shift, shares] : stage.of_messages) {
    for (auto& [link, share] : shares) link = images.of(link);
  }
}

void StageLinks::add_messages(std::size_t stage, const Segment& segment, OfStage& own) const {
  for (const StageMessage& m : segment.sends) {
    auto& shares = own.of_messages[m.shift];
    if (shares.empty()) shares = shares_of_message(stage, m.shift);
  }
}

std::vector<std::pair<LinkId, double>> StageLinks::shares_of_message(std::size_t stage, std::int64_t shift) const {
  const auto from = static_cast<std::int64_t>(stage);
  const auto to = static_cast<std::int64_t>(stages_.shifted(stage, shift));
  if (from == to) return {};
  std::map<LinkId, double> shares;
  for (std::int64_t i = 0; i < ranks_; ++i) {
    const Route route = machines_.cluster().route(RankId(static_cast<std::int32_t>(from * ranks_ + i)),
                                                  RankId(static_cast<std::int32_t>(to * ranks_ + i)));
    for (const RouteLink& l : route.links) shares[l.link] += l.share;
  }
  return {shares.begin(), shares.end()};
}

}  // namespace moeplan::sim
