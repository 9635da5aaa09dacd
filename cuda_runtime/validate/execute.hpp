// The execution of a job on one of its ranks, on any back end: first the layers (values, then times), then the
// benchmarks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/validate/job.hpp"

namespace moeplan::validate {

/// The execution environment of one rank.
struct RankMachine {
  std::string host;     // the node's name
  Processor processor;  // the rank's core or GPU
  /// Creates the back end of one case.
  std::function<std::unique_ptr<runtime::Backend>(const CodecOptions& codecs)> make_backend;
  std::function<runtime::SeenClocks()> clocks = {};           // of its GPU, seen during executions so far
  std::function<void(const std::string& phase)> begins = {};  // called with the next phase, e.g. "run 3"
  std::function<void(const Answer& answer)> case_ends = {};   // called on rank 0 with each case by itself
};

/// Executes a job. Collective: all ranks call it. The answer is complete on rank 0 and empty on the others. Raises
/// ExecutionError, and InputError if a measurement's ranks are not numbered consecutively and evenly over the nodes.
[[nodiscard]] Answer answer(const ExecuteJob& job, runtime::Peers& peers, const RankMachine& machine);

/// The number of nodes, given their names by rank. Raises InputError as answer() does.
[[nodiscard]] std::int64_t machines_of(const std::vector<std::string>& hosts);

}  // namespace moeplan::validate
