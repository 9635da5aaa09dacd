// Doing a job as one of its ranks, on any back end: layers, values first, then times; then benchmarks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/validate/job.hpp"

namespace moeplan::validate {

/// A rank's part of a machine.
struct RankMachine {
  std::string host;                                                                           // the machine's name
  Processor processor;                                                                        // what the rank runs on
  std::function<std::unique_ptr<runtime::Backend>(const CodecOptions& codecs)> make_backend;  // a new one for each case
  std::function<std::optional<runtime::GpuClocks>()> clocks = {};  // of its GPU, at the moment
  std::function<void(const std::string& phase)> begins = {};       // told what comes: "run 3"
};

/// All ranks call it; what is asked for is on rank 0, on the others it is empty. Raises ExecutionError, and InputError
/// where a job measures and ranks are not as many on each machine, one after the other.
[[nodiscard]] Answer answer(const ExecuteJob& job, runtime::Peers& peers, const RankMachine& machine);

/// The machines of ranks, whose names these are by rank. Raises InputError as answer() does.
[[nodiscard]] std::int64_t machines_of(const std::vector<std::string>& hosts);

}  // namespace moeplan::validate
