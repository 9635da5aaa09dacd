// The page of `moeplan import nccl-tests`: what logs held, and how well the cluster made from them predicts them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/fits/measured_cluster.hpp"
#include "profiler/tables/samples.hpp"

namespace moeplan::cli {

/// A measured time, and what the written cluster predicts for it; none in place: plans send from one buffer to another.
struct PredictedSample {
  profiler::CollectiveSample sample;
  std::optional<Seconds> predicted;
};

/// Predicts every sample on groups of its shape, each on nodes of as many GPUs as the group has of a node, with their
/// NICs. Not predicted: samples in place, and all-to-alls of more than 2,048 ranks.
[[nodiscard]] std::vector<PredictedSample> predicted_samples(const ClusterSpec& cluster,
                                                             const std::vector<profiler::CollectiveSample>& samples);

struct LogImport {
  std::size_t logs = 0;
  std::vector<PredictedSample> samples;
  std::string devices;  // as the logs name them; "" if they do not
  std::string gpu;      // of the written cluster
  std::string like;
  ClusterTemplate like_machine;
  profiler::MeasuredCluster cluster;
  std::string output;
};

[[nodiscard]] std::string log_import_page(const LogImport& import);

}  // namespace moeplan::cli
