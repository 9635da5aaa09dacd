#include "sim/flows/interacting_ranks.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "model/base/disjoint_sets.hpp"

namespace moeplan::sim {

namespace {

/// Collects the groups of the communications of a sequence; false if it contains messages.
bool collect_groups(const Program& program, const Sequence& sequence, std::set<GroupId>& groups) {
  for (const Step& step : sequence) {
    if (!step.is_block()) {
      if (!collect_groups(program, step.body, groups)) return false;
      continue;
    }
    for (const Operation& operation : program.blocks[step.block.index()].operations) {
      if (std::holds_alternative<Send>(operation.work) || std::holds_alternative<Receive>(operation.work)) return false;
      if (operation.communication()) groups.insert(operation.communication()->group);
    }
  }
  return true;
}

/// The sets whose communications use a resource.
struct Users {
  std::vector<std::int32_t> in_all{};    // sets that have a rank in each of these communications: two at most
  std::optional<std::int32_t> inside{};  // a set within which one of them takes place
  bool is_used = false;
};

class ResourceUse {
 public:
  ResourceUse(const Program& program, const RankSets& sets, const NetworkView& view)
      : program_(program),
        sets_(sets),
        view_(view),
        users_(view.capacities().size()),
        shares_(static_cast<std::size_t>(*std::max_element(sets.begin(), sets.end())) + 1) {}

  OwnResources run() {
    for (const Block& block : program_.blocks) {
      for (const Operation& operation : block.operations) {
        if (const auto* send = std::get_if<Send>(&operation.work)) {
          for_each_rank([&](RankId r) {
            add(operation, r, program_.group(send->group).shifted(r, send->shift), /*waits_for_receiver=*/false);
          });
        } else if (const Communication* communication = operation.communication()) {
          add(operation, *communication);
        }
      }
    }
    OwnResources own(shares_.size(), std::vector<ResourceId>{});
    for (std::size_t i = 0; i < users_.size(); ++i) {
      const Users& users = users_[i];
      if (!users.inside) continue;
      const auto set = static_cast<std::size_t>(*users.inside);
      if (std::find(users.in_all.begin(), users.in_all.end(), *users.inside) == users.in_all.end()) shares_[set] = true;
      own[set]->emplace_back(i);
    }
    for (std::size_t set = 0; set < own.size(); ++set) {
      if (shares_[set]) own[set].reset();
    }
    return own;
  }

 private:
  template <class F>
  void for_each_rank(const F& f) const {
    for (std::size_t r = 0; r < sets_.size(); ++r) f(RankId(r));
  }

  void add(const Operation& operation, const Communication& communication) {
    const GroupFamily& family = program_.group(communication.group);
    if (communication.collective == Collective::AllToAll) {  // at most between all members, whatever the rows
      if (!exchanged_.insert(communication.group).second) return;
      for_each_rank([&](RankId from) {
        for (std::int64_t p = 0; p < family.size; ++p) add(operation, from, family.member(from, p));
      });
      return;
    }
    for_each_rank([&](RankId r) {
      if (family.base(r) != r) return;
      for (const Transfer& t : view_.transfers(operation, r)) add(operation, t.from, t.to);
    });
  }

  /// A message may arrive whatever its receiver does: its set does not take part.
  void add(const Operation& operation, RankId from, RankId to, bool waits_for_receiver = true) {
    if (from == to) return;
    uses_.clear();
    view_.append_uses(operation, from, to, uses_);
    const std::int32_t sender = sets_[from.index()], receiver = waits_for_receiver ? sets_[to.index()] : -1;
    for (const FlowUse& use : uses_) add(users_[use.resource.index()], sender, receiver);
  }

  void add(Users& users, std::int32_t from, std::int32_t to) {
    if (!std::exchange(users.is_used, true)) users.in_all = {from, to};
    std::erase_if(users.in_all, [&](std::int32_t set) { return set != from && set != to; });
    if (from != to) return;
    if (users.inside && *users.inside != from) {
      for (const std::int32_t set : {*users.inside, from}) shares_[static_cast<std::size_t>(set)] = true;
    }
    users.inside = from;
  }

  const Program& program_;
  const RankSets& sets_;
  const NetworkView& view_;
  std::vector<Users> users_;     // by ResourceId
  std::vector<bool> shares_;     // by set: it shares a resource with another
  std::set<GroupId> exchanged_;  // families whose all-to-alls have been added
  std::vector<FlowUse> uses_;
};

}  // namespace

std::optional<RankSets> interacting_ranks(const Program& program, const Sequence& body, const NetworkView& view) {
  std::set<GroupId> groups;
  if (!collect_groups(program, body, groups)) return std::nullopt;
  RankSets numbers(view.ranks());
  if (view.symmetry()) return numbers;
  DisjointSets sets(numbers.size());
  for (const GroupId group : groups) {
    for (std::size_t r = 0; r < numbers.size(); ++r) sets.join(r, program.group(group).base(RankId(r)).index());
  }
  std::int32_t count = 0;
  for (std::size_t r = 0; r < numbers.size(); ++r) {
    const std::size_t least = sets.least(r);
    numbers[r] = least == r ? count++ : numbers[least];
  }
  return numbers;
}

OwnResources own_resources(const Program& program, const RankSets& sets, const NetworkView& view) {
  if (std::all_of(sets.begin(), sets.end(), [](std::int32_t set) { return set == 0; })) {
    std::vector<ResourceId> all;
    for (std::size_t i = 0; i < view.resources(); ++i) all.emplace_back(i);
    return {all};
  }
  return ResourceUse(program, sets, view).run();
}

}  // namespace moeplan::sim
