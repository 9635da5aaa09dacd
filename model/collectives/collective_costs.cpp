#include "model/collectives/collective_costs.hpp"

#include <fmt/format.h>

#include <iterator>
#include <optional>

#include "model/text/unit_text.hpp"

namespace moeplan {

namespace {

bool has_same_shape(CollectiveKey a, const CollectiveKey& b) {
  a.from = b.from;
  return a == b;
}

/// The measured piece of exactly this shape that answers n bytes; the end if there is none.
CollectiveCosts::const_iterator piece_of(const CollectiveCosts& costs, CollectiveKey key, Bytes n) {
  key.from = n;
  auto piece = costs.upper_bound(key);
  if (piece != costs.begin() && has_same_shape(key, std::prev(piece)->first)) return std::prev(piece);
  return piece != costs.end() && has_same_shape(key, piece->first) ? piece : costs.end();
}

/// The fastest piece of an all-reduce by comparison with what it contains, if it is too fast.
std::optional<FastAllReduce> fastest_piece(const CollectiveCosts& costs, const CollectiveKey& all_reduce) {
  constexpr double kNoise = 0.25, kSmallest = 0x1p20, kLargest = 0x1p30;
  std::optional<FastAllReduce> worst;
  for (const Collective contained : {Collective::ReduceScatter, Collective::AllGather}) {
    CollectiveKey key = all_reduce;
    key.collective = contained;
    for (double n = kSmallest; n <= kLargest; n *= 4) {
      const auto piece = piece_of(costs, all_reduce, Bytes(n)), other = piece_of(costs, key, Bytes(n));
      if (piece == costs.end() || other == costs.end()) continue;
      const Seconds time = piece->second.time(Bytes(n)), least = other->second.time(Bytes(n));
      if (time >= least * (1 - kNoise) || (worst && time / least >= worst->time / worst->contained_time)) continue;
      worst = FastAllReduce{piece->first, contained, Bytes(n), time, least};
    }
  }
  return worst;
}

}  // namespace

std::vector<FastAllReduce> fast_all_reduces(const CollectiveCosts& costs) {
  std::vector<FastAllReduce> out;
  const CollectiveKey* before = nullptr;  // pieces of a shape follow one another
  for (const auto& [key, cost] : costs) {
    if (key.collective != Collective::AllReduce || (before && has_same_shape(key, *before))) continue;
    before = &key;
    if (const auto found = fastest_piece(costs, key)) out.push_back(*found);
  }
  return out;
}

std::string text_of(const FastAllReduce& fast) {
  return fmt::format("{} takes {} for {}, less than the {} of {} that it contains", text_of(fast.key), human(fast.time),
                     human(fast.n), name_of<Collective>(kCollectiveNames, fast.contained), human(fast.contained_time));
}

std::string text_of(const CollectiveKey& key) {
  std::string text =
      fmt::format("{} {}", name_of<Collective>(kCollectiveNames, key.collective), name_of<Span>(kSpanNames, key.span));
  if (key.ranks > 0) text += fmt::format(" of {} ranks", key.ranks);
  if (key.from > Bytes(0)) text += fmt::format(" from {}", human(key.from));
  return text;
}

}  // namespace moeplan
