// What people have of a Megatron job, as the words of its command line: a script, its arguments alone, YAML, or a log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan::runs {

inline constexpr std::string_view kEndOfValues = "\n";

struct JobWords {
  std::vector<std::string> words;     // "--num-layers", "32", ...; kEndOfValues ends those of an argument
  std::optional<std::int64_t> world;  // GPUs, if the file says it
  std::vector<std::string> notes;     // "mixed_precision x is not known"
  std::map<std::string, std::string> variables = {};  // of a script
};

/// The words of
/// - a script or bare arguments: comments are skipped, variables (A=1, A=${A:-1}, $((A * 2))) and quotes are resolved,
///   both arrays and commands are read for arguments; all branches of a script count. GPUs from #SBATCH lines, or from
///   --nnodes and --nproc-per-node of torchrun.
/// - YAML (a name that ends in .yaml or .yml): arguments with their dashes under any keys, as Megatron-LM's tests, or
///   fields in sections, as Megatron-Bridge's configuration.
/// - a log: the arguments that Megatron-LM prints before it starts.
/// Raises InputError for YAML that cannot be read.
[[nodiscard]] JobWords job_words(std::string_view text, const std::string& file);

/// Where a word such as "--num-layers" stands last in a text; the file alone if it does not.
[[nodiscard]] Location place_of_word(std::string_view text, std::string_view word, const std::string& file);

/// A Python list of zeros and ones, "([0]*3+[1]*58)"; none if the text is something else, or longer than `most`.
[[nodiscard]] std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::size_t most);

}  // namespace moeplan::runs
