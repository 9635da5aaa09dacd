// What `moeplan profile --backend` measures: short runs of single operations, as an executed layer has them.
//
// A communication is timed from the end of the operation before it to the begin of the one after it, each on another
// stream: what it takes to hand over between streams belongs to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "model/specs/cluster.hpp"
#include "model/specs/dtype.hpp"

namespace moeplan {

struct Benchmark {
  enum class Kind {
    Gemm,         // one product
    GroupedGemm,  // several at once
    Kernel,       // memory-bound
    Codec,        // rows encoded, then decoded
    Collective,   // one, of all or of some ranks
    Pair,         // an all-to-all beside an all-gather
    Beside        // a product beside an all-to-all
  };
  Kind kind;
  std::string name;  // "activation", "fp16", "all_to_all"
  double flops = 0;
  double bytes = 0;  // read and written; of a collective its n (AlphaBeta), of a codec those of the plain rows
  Collective collective = Collective::AllToAll;
  std::int64_t ranks = 0;  // that take part, the first ones
  std::size_t size = 0;    // which of the sizes of its kind
};

/// In the order in which they are run. Computations run on rank 0 alone, the others rest.
[[nodiscard]] std::vector<Benchmark> benchmarks(std::int64_t ranks);

/// A benchmark as one rank runs it.
struct BenchmarkRun {
  struct Step {
    Stream stream;
    std::vector<std::size_t> after;
  };
  std::vector<BufferShape> buffers;
  std::vector<Work> works;
  std::vector<Step> steps;  // of each work
};
[[nodiscard]] BenchmarkRun run_of(const Benchmark& benchmark, RankId rank);

/// The benchmark's time from one run: `times` by rank and step, empty for ranks that rest.
[[nodiscard]] double time_of(const Benchmark& benchmark, const std::vector<std::vector<OperationTime>>& times);

}  // namespace moeplan
