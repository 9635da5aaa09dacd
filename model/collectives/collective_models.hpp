// The measured collectives and dispatchers of one machine: a file in configs/collectives. docs/communication.md derives
// the models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/collectives/all_to_all_model.hpp"
#include "model/collectives/collective.hpp"
#include "model/collectives/collective_cost.hpp"
#include "model/collectives/dispatcher.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/collectives/network.hpp"
#include "model/collectives/ring_model.hpp"
#include "model/collectives/tree_model.hpp"
#include "model/text/document.hpp"

namespace moeplan {

/// Bandwidths of links by their datasheet: of a GPU inside its node, and of a NIC.
struct LinkRates {
  BytesPerSecond intra_node;
  BytesPerSecond nic;  // 0: there is none
  bool operator==(const LinkRates&) const = default;
};

struct CollectiveModels {
  std::string cluster;
  std::vector<std::string> sources = {};  // texts, one of which a measurement names that this machine's numbers answer;
                                          // empty: they answer all
  std::int64_t ranks_per_node = 1;        // the largest NVLink domain
  std::int64_t measured_ranks = 1;        // the largest group that the numbers were fitted to
  bool fits_none = false;                 // they are another machine's, so that all rows of this one are held out
  std::optional<LinkRates> measured_on = {};  // the machine's links
  Seconds launch{};                           // of any collective
  Network network{};
  std::vector<RingModel> rings = {};
  std::vector<TreeModel> trees = {};
  std::optional<NvlsModel> nvls = {};
  std::optional<AllToAllModel> all_to_all = {};
  std::optional<SendReceiveModel> send_receive = {};
  /// Those with figures of NICs answer groups on several nodes, the others groups on one.
  std::vector<DispatcherModel> dispatchers = {};
  bool operator==(const CollectiveModels&) const = default;
};

/// Whether the numbers apply to a measurement of this source.
[[nodiscard]] bool answers(const CollectiveModels& models, std::string_view source);

/// The time of a collective of `bytes` (as nccl-tests counts them); none if there are no figures. It is that of the
/// fastest of the algorithms that the file has, such that time never falls
///  - with bytes;
///  - with ranks inside a node, and with nodes at equal ranks per node: a group is no faster than one of fewer nodes;
///  - from an all-gather or a reduce-scatter to the all-reduce of the same bytes, unless trees reduce: their few steps
///    make small ones faster than the rings of the others.
[[nodiscard]] std::optional<CollectiveCost> collective_cost(const CollectiveModels& models, Collective collective,
                                                            GroupShape shape, Bytes bytes, bool in_place = false);

/// The numbers of a dispatcher for a group: the first entry of its name and mode (any mode without one) that answers
/// its nodes and the format of its combine; none if there is none.
[[nodiscard]] const DispatcherModel* find_dispatcher(const CollectiveModels& models, std::string_view dispatcher,
                                                     std::string_view mode, std::string_view combine_format,
                                                     std::int64_t nodes);

/// Whether a group is more than four times as large as the largest, of `measured_ranks`, that numbers were fitted to.
[[nodiscard]] bool is_extrapolated(GroupShape shape, std::int64_t measured_ranks);

/// Whether the numbers that answer a collective were read off all measurements of it.
[[nodiscard]] bool restates(const CollectiveModels& models, Collective collective, GroupShape shape);

/// Factors on what links and software contribute to the time of collectives.
struct LinkFactors {
  double intra_node = 1;  // of bandwidths inside nodes
  double nic = 1;         // of bandwidths between nodes
  double latency = 1;     // of everything that does not depend on bytes
  bool operator==(const LinkFactors&) const = default;
};
/// Changes all numbers by the factors.
void scale(CollectiveModels& models, const LinkFactors& factors);

/// Reads the content of a file of configs/collectives; raises InputError.
[[nodiscard]] CollectiveModels read_collective_models(const Node& document);

}  // namespace moeplan
