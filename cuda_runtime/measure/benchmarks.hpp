// What `moeplan profile --backend` measures: short runs of single operations, as an executed layer has them.
//
// A communication is timed from the end of the operation before it to the begin of the one after it, each on another
// stream: what it takes to hand over between streams belongs to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/dtype.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

/// Sizes and formats of what is measured: those of layers that such ranks run.
enum class BenchmarkScale { Cores, Gpus };

struct Benchmark {
  enum class Kind {
    Gemm,         // one product
    Peak,         // one, in a format of which nothing else is measured
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
  std::int64_t ranks = 0;  // that take part, the first ones of each machine
  std::size_t size = 0;    // which of the sizes of its kind
  Dtype dtype = Dtype::Fp32;
  BenchmarkScale scale = BenchmarkScale::Cores;
  std::int64_t nodes = 1;              // machines that take part
  std::int64_t ranks_of_machine = {};  // that are there, one after the other

  /// The ranks that take part, ascending.
  [[nodiscard]] std::vector<RankId> members() const;
  /// Of a product or several.
  [[nodiscard]] std::vector<GemmShape> products() const;
};

/// What is measured on so many ranks, as many on each machine, in the order in which it is run. Computations run on
/// rank 0 alone, the others rest; one rank measures these only. The first communication is one of all ranks.
[[nodiscard]] std::vector<Benchmark> benchmarks(BenchmarkScale scale, std::int64_t ranks, std::int64_t nodes = 1);

/// A benchmark as one rank runs it.
struct BenchmarkExecution {
  struct Step {
    Stream stream;
    std::vector<std::size_t> after;
  };
  std::vector<BufferShape> buffers;
  std::vector<Work> works;
  std::vector<Step> steps;  // of each work
  /// Buffers whose values matter to the time: a GPU that multiplies zeros needs less power, and clocks higher.
  std::vector<BufferId> random = {};
};
[[nodiscard]] BenchmarkExecution run_of(const Benchmark& benchmark, RankId rank);

/// The benchmark's time from one run: `times` by rank and step, empty for ranks that rest.
[[nodiscard]] double time_of(const Benchmark& benchmark, const std::vector<std::vector<OperationTime>>& times);

}  // namespace moeplan::runtime
