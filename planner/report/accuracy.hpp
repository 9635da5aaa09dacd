// How far predicted iterations were from measured ones, for jobs like a given one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/machine/gpu.hpp"
#include "model/text/document.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::planner {

/// Errors of predictions of some training runs. Error = predicted / measured - 1, of the time of an iteration; bias is
/// the mean of ln(predicted / measured).
struct Accuracy {
  std::string gpu = {}, precision = {};  // of the runs; precision "": any
  bool is_of_pytorch = false;            // of PyTorch's own modules (Workload::pytorch_modules), else of a framework's
  std::int64_t runs = 0;
  std::int64_t most_gpus = 1;            // of a run; what is larger is extrapolated
  double median = 0, p90 = 0, bias = 0;  // the first two of the error's absolute value
};

/// Errors of predicted peaks of memory, on any GPU, of runs whose work is stated: of modules of a framework, or of
/// PyTorch's own (Workload::pytorch_modules).
struct MemoryAccuracy {
  std::int64_t runs = 0;
  double p90 = 0;  // of the error's absolute value
};

struct Accuracies {
  std::vector<Accuracy> iterations;
  std::optional<MemoryAccuracy> memory, pytorch_memory;
};

/// A file that `moeplan score --accuracy` wrote: the list `accuracy`, and `memory` and `pytorch_memory` if peaks were
/// measured. Raises InputError.
[[nodiscard]] Accuracies read_accuracy(const Node& document);

/// What is known of jobs like this one: of runs of such modules on the GPU in the workload's precision if there are
/// kFewestRuns, else of all on the GPU. None if there are fewer of those too, or if the workload is no training.
inline constexpr std::int64_t kFewestRuns = 5;
[[nodiscard]] std::optional<Accuracy> accuracy_of(std::span<const Accuracy> known, const GpuSpec& gpu,
                                                  const Workload& workload);

/// The same of what is shipped, configs/accuracy/iterations.yaml; none if there is no such file or no configs/.
[[nodiscard]] std::optional<Accuracy> shipped_accuracy_of(const GpuSpec& gpu, const Workload& workload);
[[nodiscard]] std::optional<MemoryAccuracy> shipped_memory_accuracy(const Workload& workload);

}  // namespace moeplan::planner
