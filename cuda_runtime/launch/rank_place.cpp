#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cuda_runtime/launch/rank_store.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

namespace {

struct Variables {
  const char *rank, *ranks, *local_rank;
};
constexpr std::array<Variables, 3> kNames{
    {{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
     {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}};

std::optional<std::int64_t> number_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error == std::errc() && *end == '\0' && value >= 0) return value;
  throw InputError(Diagnostic{{name}, "", fmt::format("\"{}\" is no whole number of ranks", text)});
}

/// What all ranks of this job know and, unless MOEPLAN_RANK_SECRET is set, other jobs do not use.
std::string job_secret() {
  if (const char* secret = std::getenv("MOEPLAN_RANK_SECRET")) return secret;
  const char *job = std::getenv("SLURM_JOB_ID"), *step = std::getenv("SLURM_STEP_ID");
  if (job != nullptr && step != nullptr) return fmt::format("{}.{}", job, step);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"}) {
    if (const char* run = std::getenv(name)) return run;
  }
  return "";
}

}  // namespace

std::optional<RankPlace> rank_place() {
  for (const Variables& names : kNames) {
    // A batch script itself has SLURM_PROCID 0 but is no rank. Only ranks started by srun have SLURM_STEP_ID.
    if (std::string_view(names.rank) == "SLURM_PROCID" && std::getenv("SLURM_STEP_ID") == nullptr) continue;
    const auto rank = number_of(names.rank), ranks = number_of(names.ranks);
    if (!rank || !ranks) continue;
    if (*rank >= *ranks) {
      throw InputError(Diagnostic{{names.rank}, "", fmt::format("{} is none of {} ranks", *rank, *ranks)});
    }
    RankPlace out{*rank, *ranks, number_of(names.local_rank).value_or(0)};
    if (const char* address = std::getenv("MASTER_ADDR")) out.address = address;
    if (const auto port = number_of("MASTER_PORT")) {
      if (*port < 1 || *port > 65535) throw InputError(Diagnostic{{"MASTER_PORT"}, "", "expected 1 to 65535"});
      out.port = static_cast<std::uint16_t>(*port);
    }
    out.secret = job_secret();
    return out;
  }
  return std::nullopt;
}

}  // namespace moeplan::runtime
