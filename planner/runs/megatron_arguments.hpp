// The arguments of a Megatron-LM job as a model and a row of a table of runs, which `moeplan score` reads and from
// which plans are made (imported_plan.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/text/document.hpp"
#include "profiler/tables/run_table.hpp"

namespace moeplan::runs {

struct MegatronJob {
  Node model;                              // a model of ours, named "megatron"
  profiler::RunRow row;                    // without cluster, world, model and time
  std::optional<std::int64_t> world = {};  // GPUs, if the file says it
  std::vector<std::string> assumed;        // "vocab_size 50257: the arguments do not say it"
  std::vector<std::string> unused;         // arguments that neither the model nor the row depends on, in their order
};

/// Reads arguments from a script, bare, in YAML, or printed in a log (job_words.hpp). Arguments that are absent have
/// Megatron-Core's defaults. `file` locates errors. Raises InputError with everything that is missing or not a number,
/// and what cannot be expressed.
[[nodiscard]] MegatronJob read_megatron_arguments(std::string_view text, const std::string& file);

/// The median of the later half of the times that a log of Megatron-LM prints ("elapsed time per iteration (ms): ...");
/// none if it prints none.
[[nodiscard]] std::optional<Seconds> iteration_time(std::string_view log);

}  // namespace moeplan::runs
