// The models of collectives of a cluster that resembles the measured one, fitted to a few logs: bandwidths inside
// nodes, of NICs, and latencies, each by one factor. Logs of small groups thus say what larger groups take, with the
// steps of rings, trees and messages (docs/communication.md) instead of a line through the measured times.
#pragma once

#include <optional>
#include <span>

#include "model/collectives/collective_models.hpp"
#include "profiler/tables/samples.hpp"

namespace moeplan::profiler {

/// How well the fitted models predict logs of one kind: the mean of |ln(predicted / measured)| out of place.
struct ModelError {
  std::size_t samples = 0;
  double mean = 0;
};

struct FittedModels {
  Node document;  // that of the models, whose `measured_on` says how fast they are on the measured machine's links
  LinkFactors factors;         // on the similar cluster's own numbers; 1 where no log shows them
  ModelError inside, between;  // nodes
};

/// Fits the models of `document` (a file of configs/collectives) to samples of a machine with these links. Messages of
/// 1 MiB and more show bandwidths, those of NICs in the groups with the most ranks a node; smaller ones latencies.
[[nodiscard]] FittedModels fitted_models(const Node& document, const LinkRates& links,
                                         std::span<const CollectiveSample> samples);

}  // namespace moeplan::profiler
