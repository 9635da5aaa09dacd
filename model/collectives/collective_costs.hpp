// Measured costs of collectives, and all-reduces among them that contradict the others.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/collectives/collective.hpp"

namespace moeplan {

enum class Span { IntraNode, InterNode };  // whether a group lies within one node

inline constexpr std::array<std::pair<Span, std::string_view>, 2> kSpanNames{
    {{Span::IntraNode, "intra_node"}, {Span::InterNode, "inter_node"}}};

/// The alpha-beta model: t = alpha + n beta. n as in MODELS section 0: the send buffer of a GPU for all-to-all, the
/// gathered output for all-gather, the input for reduce-scatter, the tensor for all-reduce and broadcast, the message
/// for send-receive.
struct AlphaBeta {
  Seconds alpha;
  SecondsPerByte beta;
  bool operator==(const AlphaBeta&) const = default;
  [[nodiscard]] constexpr Seconds time(Bytes n) const { return alpha + n * beta; }
};

/// The scope of a measured alpha-beta entry. Without a shape (ranks 0) it applies to groups of any size and to messages
/// of `from` bytes or more. With a shape it applies to groups of that many ranks on that many nodes; the entries of one
/// shape are the pieces of a piecewise linear curve over the message size. costs/measured_cost.hpp says how the costs
/// of groups of other shapes are derived.
struct CollectiveKey {
  Collective collective;
  Span span;
  bool in_place = false;   // measured without the copy of a rank's own part (the in-place column of nccl-tests)
  std::int64_t nodes = 0;  // of the group
  std::int64_t ranks = 0;
  Bytes from{};  // the n (see AlphaBeta) at which the piece begins; the first piece also applies below it
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

/// Measured costs. Collectives that are not measured are priced by the cluster's models of collectives, or from the
/// links alone.
using CollectiveCosts = std::map<CollectiveKey, AlphaBeta>;

/// An all-reduce measured faster than a collective that it contains. An all-reduce of zeros except for a rank's own
/// part is an all-gather, and one whose result is used only in part is a reduce-scatter, so it takes no less time than
/// either of as many bytes.
struct FastAllReduce {
  CollectiveKey key;  // of its piece where it is fastest by comparison
  Collective contained;
  Bytes n;
  Seconds time, contained_time;
};

/// Those measured faster, by more than noise, on groups of the same shape; for each shape, that of the least ratio. Of
/// 240 such pairs of NCCL's times on 2, 4 and 8 A100 or H100 (aiconfigurator 095f58a, 1 MiB and above) four are below,
/// all of one size, by 16% at most; a quarter therefore exceeds noise. Messages below 1 MiB, which may use other
/// protocols, are not compared.
[[nodiscard]] std::vector<FastAllReduce> fast_all_reduces(const CollectiveCosts& costs);

/// "all_reduce intra_node of 8 ranks takes 1 ms for 1.000 GiB, less than the all_gather of 2 ms that it contains".
[[nodiscard]] std::string text_of(const FastAllReduce& fast);

/// "all_to_all inter_node of 16 ranks from 1 MiB".
[[nodiscard]] std::string text_of(const CollectiveKey& key);

}  // namespace moeplan
