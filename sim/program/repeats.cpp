#include "sim/program/repeats.hpp"

#include <algorithm>

namespace moeplan::sim {

RepeatsInStep::RepeatsInStep(const NetworkView& view, TimelineRecorder& recorder)
    : ranks_(view.ranks()), recorder_(recorder) {
  for (std::size_t i = 0; i < view.resources(); ++i) resources_.emplace_back(i);
}

bool RepeatsInStep::pass(const ProgramCursor& at, SimTime now) {
  starts_.resize(at.depth());
  std::optional<Start>& start = starts_.back();
  if (at.iterations_done() == 0 || !start) {
    start = {now + recorder_.skipped(), {}, recorder_.mark_traffic(resources_)};
    for (std::size_t r = 0; r < ranks_; ++r) start->marks.push_back(recorder_.mark(RankId(r)));
    return false;
  }
  if (const std::int64_t more = at.iterations() - at.iterations_done(); more > 0) {
    const SimTime period = now + recorder_.skipped() - start->time;
    const std::int32_t repeat =
        recorder_.add_repeat(RankId(0), at.depth(), {.count = more + 1, .start = start->time, .period = period});
    for (std::size_t r = 0; r < ranks_; ++r) recorder_.repeat_since(start->marks[r], RankId(r), repeat);
    recorder_.repeat_traffic_since(start->traffic, resources_, repeat);
    recorder_.skip(SimTime::scaled(period, more));
  }
  start.reset();
  return true;
}

std::optional<RecurringRepeats::Skip> RecurringRepeats::pass(RankId r, const ProgramCursor& at,
                                                             const RankStreams& streams, SimTime now) {
  const std::size_t depth = at.depth() - 1;
  std::vector<Partition*>& active = active_[r.index()];
  active.resize(depth + 1);
  Partition* partition = active.back() = partition_of(at.repeat());
  if (!partition) return std::nullopt;
  const auto number = static_cast<std::size_t>(partition->set_of[r.index()]);
  Set& set = partition->sets[number];
  if (set.levels.size() <= depth) set.levels.resize(depth + 1);
  Level& level = set.levels[depth];
  if (level.skipped) {
    if (!at.follows(*level.present.at)) return std::nullopt;  // it has skipped them already
    return skip(*partition, number, depth, r, streams);
  }
  if (!level.present.at || !level.present.at->same_boundary(at)) {
    std::swap(level.previous, level.present);
    level.present = {.at = at, .ranks = {}, .skipped = recorder_.skipped()};
    level.present.ranks.resize(set.ranks.size());
  }
  Boundary& present = level.present;
  present.separates = present.separates && streams.background_is_idle();
  present.ranks[partition->position[r.index()]] = {now, streams.block_number(), recorder_.mark(r)};
  if (++present.count == set.ranks.size()) complete(*partition, number, depth, now);
  return std::nullopt;
}

void RecurringRepeats::complete(Partition& partition, std::size_t set, std::size_t depth, SimTime now) {
  Level& level = partition.sets[set].levels[depth];
  const Boundary &before = level.previous, &present = level.present;
  // Two are left to simulate: the next, at the end of which ranks skip those that follow, and the last.
  const std::int64_t more = present.at->iterations() - present.at->iterations_done() - 2;
  if (more < 1 || !present.separates || !before.separates || before.count != present.count) return;
  if (!before.at || !present.at->follows(*before.at) || present.skipped != before.skipped) return;
  const SimTime period = present.ranks.front()->time - before.ranks.front()->time;
  for (std::size_t i = 0; i < present.count; ++i) {
    if (present.ranks[i]->time - before.ranks[i]->time != period) return;
  }
  const std::vector<ResourceId>* resources = own(partition, set);
  if (!resources) return;
  const RankId first = partition.sets[set].ranks.front();
  const std::int32_t repeat = recorder_.add_repeat(
      first, depth + 1, {.count = more + 1, .start = now + recorder_.skipped(), .period = period, .in_step = false});
  level.skipped = {
      .iterations = more, .period = period, .repeat = repeat, .traffic = recorder_.mark_traffic(*resources)};
  ++skipping_;
}

RecurringRepeats::Skip RecurringRepeats::skip(Partition& partition, std::size_t set, std::size_t depth, RankId r,
                                              const RankStreams& streams) {
  Level& level = partition.sets[set].levels[depth];
  Skipped& skipped = *level.skipped;
  const Passed& before = *level.present.ranks[partition.position[r.index()]];
  recorder_.repeat_since(before.mark, r, skipped.repeat);
  const Skip skip{.time = SimTime::scaled(skipped.period, skipped.iterations),
                  .iterations = skipped.iterations,
                  .blocks = skipped.iterations * (streams.block_number() - before.block_number)};
  if (++skipped.ranks == level.present.count) {
    recorder_.repeat_traffic_since(skipped.traffic, *own(partition, set), skipped.repeat);
    level = {};
    --skipping_;
  }
  return skip;
}

void RecurringRepeats::start_transfers(RankId r) {
  const std::vector<Partition*>& active = active_[r.index()];
  for (std::size_t depth = 0; depth < active.size(); ++depth) {
    if (!active[depth]) continue;
    Set& set = active[depth]->sets[static_cast<std::size_t>(active[depth]->set_of[r.index()])];
    if (set.levels.size() <= depth) continue;
    Boundary& present = set.levels[depth].present;
    if (present.count < set.ranks.size() && present.at && present.ranks[active[depth]->position[r.index()]])
      present.separates = false;
  }
}

RecurringRepeats::Partition* RecurringRepeats::partition_of(const Step& repeat) {
  const auto [it, is_new] = of_repeats_.try_emplace(&repeat, nullptr);
  // Ranks that share a GPU slow each other's computation down.
  if (!is_new || cluster_.ranks_per_gpu > 1) return it->second;
  std::optional<RankSets> sets = interacting_ranks(program_, repeat.body, view_);
  if (!sets) return nullptr;
  for (Partition& p : partitions_) {
    if (p.set_of == *sets) return it->second = &p;
  }
  Partition& p = partitions_.emplace_back();
  p.set_of = std::move(*sets);
  for (std::size_t r = 0; r < p.set_of.size(); ++r) {
    const auto set = static_cast<std::size_t>(p.set_of[r]);
    if (set == p.sets.size()) p.sets.emplace_back();
    p.position.push_back(p.sets[set].ranks.size());
    if (view_.simulated(RankId(r)) == RankId(r)) p.sets[set].ranks.emplace_back(r);
  }
  return it->second = &p;
}

const std::vector<ResourceId>* RecurringRepeats::own(Partition& partition, std::size_t set) {
  if (!partition.own) partition.own = own_resources(program_, partition.set_of, view_);
  const std::optional<std::vector<ResourceId>>& resources = (*partition.own)[set];
  return resources ? &*resources : nullptr;
}

Repeats::Passed Repeats::pass(std::vector<SimulatedRank>& ranks, const std::vector<RankId>& waiting, SimTime now) {
  const ProgramCursor& first = ranks.front().cursor;
  if (waiting.size() == simulated_ && !recurring_.is_skipping() &&
      std::all_of(waiting.begin(), waiting.end(), [&](RankId r) {
        const SimulatedRank& rank = ranks[r.index()];
        return rank.cursor.same_boundary(first) && rank.streams.background_is_idle();
      })) {
    if (in_step_.pass(first, now)) {
      const std::int64_t more = first.iterations() - first.iterations_done();
      for (const RankId r : waiting) ranks[r.index()].cursor.skip(more);
    }
    return {.in_step = true, .go_on = waiting};
  }
  Passed passed;
  for (const RankId r : waiting) {
    SimulatedRank& rank = ranks[r.index()];
    in_step_.reset(rank.cursor.depth());
    const auto skip = recurring_.pass(r, rank.cursor, rank.streams, now);
    if (!skip) {
      passed.go_on.push_back(r);
      continue;
    }
    rank.cursor.skip(skip->iterations);
    rank.streams.skip_blocks(skip->blocks);
    passed.skip.emplace_back(r, skip->time);
  }
  return passed;
}

}  // namespace moeplan::sim
