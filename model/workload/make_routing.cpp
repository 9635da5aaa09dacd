// Routing counts of the shapes of MODELS section 11.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <list>
#include <numeric>

#include "model/base/random.hpp"
#include "model/base/to_index.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/workload/routing.hpp"

namespace moeplan {

namespace {

/// The fraction `share` of `n` items, rounded, at least one and at most `most`.
std::size_t some_of(std::size_t n, double share, std::size_t most) {
  return std::min(most,
                  std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(share * static_cast<double>(n)))));
}

/// The sigma of the lognormal popularities exp(sigma * normals[i]) of which the largest is `max_load` times the mean,
/// or the widest if that is less.
double sigma_of(double max_load, const std::vector<double>& normals) {
  const double largest = *std::max_element(normals.begin(), normals.end());
  const auto exceeds = [&](double sigma) {
    double sum = 0;  // of popularities over the largest
    for (const double z : normals) sum += std::exp(sigma * (z - largest));
    return static_cast<double>(normals.size()) > max_load * sum;
  };
  double low = 0, high = kWidestSigma;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    exceeds(middle) ? high = middle : low = middle;
  }
  return low;
}

/// The popularity of each expert; only ratios matter. At least `top_k` experts have a positive popularity.
std::vector<double> popularities(const RoutingScenario& s, std::size_t experts, std::size_t top_k,
                                 std::size_t experts_per_rank) {
  Random random(s.seed);
  std::vector<double> popularity(experts, 1.0);
  switch (s.shape) {
    case RoutingShape::Uniform:
    case RoutingShape::Balanced:
    case RoutingShape::Ragged: break;
    case RoutingShape::Zipf: {
      const std::vector<std::size_t> order = random.permutation(experts);
      for (std::size_t i = 0; i < experts; ++i) {
        popularity[order[i]] = std::pow(static_cast<double>(i + 1), -s.zipf_exponent);
      }
      break;
    }
    case RoutingShape::Lognormal: {
      for (double& p : popularity) p = random.normal();
      const double sigma = s.max_load ? sigma_of(*s.max_load, popularity) : s.lognormal_sigma;
      for (double& p : popularity) p = std::exp(sigma * p);
      break;
    }
    case RoutingShape::HotExpert: {
      const std::vector<std::size_t> order = random.permutation(experts);
      const std::size_t hot = some_of(experts, s.hot_fraction, experts);
      for (std::size_t i = 0; i < hot; ++i) popularity[order[i]] = s.hot_factor;
      break;
    }
    case RoutingShape::HotRank: {
      const std::size_t ranks = (experts + experts_per_rank - 1) / experts_per_rank;
      const std::vector<std::size_t> order = random.permutation(ranks);
      const std::size_t hot = some_of(ranks, s.hot_fraction, ranks);
      for (std::size_t i = 0; i < hot; ++i) {
        const std::size_t first = order[i] * experts_per_rank;
        const std::size_t end = std::min(experts, first + experts_per_rank);
        std::fill(popularity.begin() + static_cast<std::ptrdiff_t>(first),
                  popularity.begin() + static_cast<std::ptrdiff_t>(end), s.hot_factor);
      }
      break;
    }
    case RoutingShape::Spread: {
      const std::size_t ranks = (experts + experts_per_rank - 1) / experts_per_rank;
      const std::size_t hot = std::min(experts, some_of(ranks, s.hot_fraction, ranks) * experts_per_rank);
      const std::size_t first = random.below(experts);
      for (std::size_t i = 0; i < hot; ++i) popularity[(first + i * experts / hot) % experts] = s.hot_factor;
      break;
    }
    case RoutingShape::ZeroLoad: {
      const std::vector<std::size_t> order = random.permutation(experts);
      const std::size_t idle = some_of(experts, s.hot_fraction, experts - top_k);
      for (std::size_t i = 0; i < idle; ++i) popularity[order[i]] = 0;
      break;
    }
  }
  return popularity;
}

/// Normalised popularities, and the orders needed for rounding and capping.
struct Shares {
  std::vector<double> share;                    // sums to 1
  std::vector<std::size_t> most_popular_first;  // ties: lowest expert
};

Shares shares_of(std::vector<double> popularity) {
  const double sum = std::accumulate(popularity.begin(), popularity.end(), 0.0);
  for (double& p : popularity) p /= sum;
  std::vector<std::size_t> order(popularity.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return popularity[a] > popularity[b]; });
  return {std::move(popularity), std::move(order)};
}

/// Integers adjacent to share * selections that sum to `selections`: the largest remainders are rounded up.
std::vector<std::int64_t> apportioned(const Shares& shares, std::int64_t selections) {
  const std::size_t experts = shares.share.size();
  std::vector<std::int64_t> counts(experts);
  std::vector<double> remainder(experts);
  std::int64_t left = selections;
  for (std::size_t e = 0; e < experts; ++e) {
    const double exact = shares.share[e] * static_cast<double>(selections);
    counts[e] = static_cast<std::int64_t>(exact);
    remainder[e] = exact - static_cast<double>(counts[e]);
    left -= counts[e];
  }
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  // 0 <= left < experts up to the rounding of `exact`; both loops terminate, since some expert with a positive share
  // can still take or give.
  for (std::size_t i = 0; left > 0; i = (i + 1) % experts) {
    if (shares.share[order[i]] == 0) continue;
    ++counts[order[i]];
    --left;
  }
  for (std::size_t i = 0; left < 0; i = (i + 1) % experts) {
    if (counts[order[experts - 1 - i]] == 0) continue;
    --counts[order[experts - 1 - i]];
    ++left;
  }
  return counts;
}

/// Every selection is drawn independently: a multinomial distribution, sampled as a chain of binomials.
std::vector<std::int64_t> drawn(const Shares& shares, std::int64_t selections, Random random) {
  std::vector<std::int64_t> counts(shares.share.size(), 0);
  double share_left = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t e = shares.most_popular_first[i];
    const bool is_last = i + 1 == counts.size() || shares.share[shares.most_popular_first[i + 1]] == 0;
    counts[e] = is_last ? selections : random.binomial(selections, std::min(1.0, shares.share[e] / share_left));
    selections -= counts[e];
    share_left -= shares.share[e];
    if (is_last) break;
  }
  return counts;
}

/// No token selects an expert twice: an expert's excess over `tokens` goes to the most popular experts that have room.
void cap(std::vector<std::int64_t>& counts, const Shares& shares, std::int64_t tokens) {
  std::int64_t excess = 0;
  for (std::int64_t& c : counts) {
    excess += std::max<std::int64_t>(0, c - tokens);
    c = std::min(c, tokens);
  }
  for (const std::size_t e : shares.most_popular_first) {
    const std::int64_t moved = std::min(excess, tokens - counts[e]);
    counts[e] += moved;
    excess -= moved;
  }
}

/// Tokens of each source; for ragged, in random pairs, of which one has as many extra tokens as the other lacks.
std::vector<std::int64_t> tokens_by_source(const RoutingScenario& s, std::size_t sources, std::int64_t tokens) {
  std::vector<std::int64_t> result(sources, tokens);
  if (s.shape != RoutingShape::Ragged) return result;
  Random random(s.seed);
  const std::vector<std::size_t> order = random.permutation(sources);
  for (std::size_t i = 0; i + 1 < sources; i += 2) {
    const auto moved = static_cast<std::int64_t>(s.ragged_spread * static_cast<double>(tokens) * random.uniform());
    result[order[i]] += moved;
    result[order[i + 1]] -= moved;
  }
  return result;
}

/// As even as integers allow, with the remainder also spread evenly: contiguous ranges of experts that are whole
/// periods of the pattern have equal loads.
std::vector<std::int64_t> spread_evenly(std::int64_t selections, std::int64_t experts) {
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(experts));
  for (std::int64_t e = 0; e < experts; ++e) counts.push_back(part(selections, e, experts));
  return counts;
}

/// As even as integers allow for every source, and over all sources: each source begins where the previous one ended.
RoutingCounts balanced(std::int64_t sources, std::int64_t experts, std::int64_t selections) {
  const std::int64_t each = selections / experts, rest = selections % experts;
  if (rest == 0) return RoutingCounts::uniform(sources, experts, each);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(sources * experts), each);
  std::int64_t next = 0;
  for (std::int64_t source = 0; source < sources; ++source) {
    for (std::int64_t i = 0; i < rest; ++i) {
      ++counts[static_cast<std::size_t>(source * experts + next)];
      next = (next + 1) % experts;
    }
  }
  return RoutingCounts::dense(sources, experts, std::move(counts));
}

/// The counts of one source with this popularity of the experts.
std::vector<std::int64_t> row_of(const RoutingScenario& scenario, const Shares& shares, std::size_t source,
                                 std::int64_t tokens, std::int64_t top_k) {
  std::vector<std::int64_t> counts = scenario.sampled ? drawn(shares, tokens * top_k, Random(scenario.seed, source + 1))
                                                      : apportioned(shares, tokens * top_k);
  cap(counts, shares, tokens);
  return counts;
}

/// The sampled matrices made last, whose sources have equally many tokens: a search asks for the same ones again and
/// again, and for more or fewer of their rows. By the values of all arguments, so that it is the same function.
class KnownSamples {
 public:
  static constexpr std::size_t kMostCounts = std::size_t{1} << 21U;  // 32 MiB in all, with their sums

  RoutingCounts of(const RoutingScenario& scenario, const std::vector<double>& popularity, std::int64_t sources,
                   std::int64_t tokens, std::int64_t top_k) {
    const auto known = std::find_if(samples_.begin(), samples_.end(), [&](const Sample& s) {
      return s.tokens == tokens && s.top_k == top_k && s.scenario == scenario && s.popularity == popularity;
    });
    if (known == samples_.end()) {
      samples_.push_front({scenario, popularity, tokens, top_k});
    } else {
      samples_.splice(samples_.begin(), samples_, known);
    }
    Sample& sample = samples_.front();
    const auto experts = static_cast<std::int64_t>(popularity.size());
    if (sample.counts.sources() < sources) {
      const Shares shares = shares_of(popularity);
      counts_ += to_index((sources - sample.counts.sources()) * experts);
      std::vector<std::int64_t> counts;
      counts.reserve(to_index(sources * experts));
      for (std::int64_t s = 0; s < sample.counts.sources(); ++s) {
        for (std::int64_t e = 0; e < experts; ++e)
          counts.push_back(sample.counts.at(RankId(to_index(s)), ExpertId(to_index(e))));
      }
      for (std::int64_t s = sample.counts.sources(); s < sources; ++s) {
        const std::vector<std::int64_t> row = row_of(scenario, shares, to_index(s), tokens, top_k);
        counts.insert(counts.end(), row.begin(), row.end());
      }
      sample.counts = RoutingCounts::dense(sources, experts, std::move(counts));
    }
    RoutingCounts result = sample.counts.of_first(sources);
    for (; counts_ > kMostCounts; samples_.pop_back())
      counts_ -= to_index(samples_.back().counts.sources() * samples_.back().counts.experts());
    return result;
  }

 private:
  struct Sample {
    RoutingScenario scenario;
    std::vector<double> popularity;
    std::int64_t tokens, top_k;
    RoutingCounts counts{};  // of as many sources as were asked for
  };
  std::list<Sample> samples_;  // the one used last first
  std::size_t counts_ = 0;     // in all samples
};

}  // namespace

std::vector<double> routing_popularities(const RoutingScenario& scenario, std::int64_t experts, std::int64_t top_k,
                                         std::int64_t experts_per_rank) {
  assert(top_k > 0 && top_k <= experts && experts_per_rank > 0 && "a token selects top_k different experts");
  return popularities(scenario, static_cast<std::size_t>(experts), static_cast<std::size_t>(top_k),
                      static_cast<std::size_t>(experts_per_rank));
}

RoutingCounts routing_by_popularity(const RoutingScenario& scenario, std::vector<double> popularity,
                                    std::int64_t sources, std::int64_t tokens, std::int64_t top_k) {
  assert(sources > 0 && tokens >= 0 && "tokens come from somewhere");
  const auto experts = static_cast<std::int64_t>(popularity.size());
  const bool all_equal =
      std::all_of(popularity.begin(), popularity.end(), [&](double p) { return p == popularity.front(); });
  if (scenario.shape == RoutingShape::Balanced && all_equal) return balanced(sources, experts, tokens * top_k);
  if (scenario.shape == RoutingShape::Uniform && all_equal && !scenario.sampled) {
    return RoutingCounts::by_expert(sources, spread_evenly(tokens * top_k, experts));
  }
  if (scenario.sampled && scenario.shape != RoutingShape::Ragged &&
      to_index(sources * experts) <= KnownSamples::kMostCounts) {
    thread_local KnownSamples samples;
    return samples.of(scenario, popularity, sources, tokens, top_k);
  }
  const Shares shares = shares_of(std::move(popularity));
  if (!scenario.sampled && scenario.shape != RoutingShape::Ragged)
    return RoutingCounts::by_expert(sources, row_of(scenario, shares, 0, tokens, top_k));
  const std::vector<std::int64_t> tokens_of = tokens_by_source(scenario, static_cast<std::size_t>(sources), tokens);
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(sources * experts));
  for (std::size_t source = 0; source < tokens_of.size(); ++source) {
    const std::vector<std::int64_t> one = row_of(scenario, shares, source, tokens_of[source], top_k);
    counts.insert(counts.end(), one.begin(), one.end());
  }
  return RoutingCounts::dense(sources, experts, std::move(counts));
}

RoutingCounts make_routing(const RoutingScenario& scenario, std::int64_t sources, std::int64_t experts,
                           std::int64_t tokens, std::int64_t top_k, std::int64_t experts_per_rank) {
  return routing_by_popularity(scenario, routing_popularities(scenario, experts, top_k, experts_per_rank), sources,
                               tokens, top_k);
}

}  // namespace moeplan
