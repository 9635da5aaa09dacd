// The benchmarks of `moeplan profile --backend`: short executions of single operations, as in an executed layer.
//
// A communication is timed from the end of the preceding operation to the start of the following one, both on another
// stream: the time therefore includes the synchronisation between streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/measure/benchmark_sizes.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/dtype.hpp"
#include "model/operators/gemm_call.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

struct Benchmark {
  enum class Kind {
    Gemm,                // one product
    Peak,                // one product, in a format for which only the peak is measured
    GroupedGemm,         // several products
    Kernel,              // memory-bound kernel
    Codec,               // rows encoded, then decoded
    Collective,          // one collective of all or some ranks
    Pair,                // an all-to-all concurrent with an all-gather
    Concurrent,          // several products concurrent with an all-to-all
    ConcurrentExchange,  // that all-to-all concurrent with such products in a row
    Sustained,  // the largest product many times in a row, as long as a training step, at the clocks of which it ends
    Operator    // one product or several, for a table of operators
  };
  Kind kind;
  std::string name;  // "activation", "fp16", "all_to_all"
  double flops = 0;
  /// Bytes read and written; for a collective its n (AlphaBeta), for a codec the bytes of the plain rows.
  double bytes = 0;
  Collective collective = Collective::AllToAll;
  std::int64_t ranks = 0;  // participating ranks, the first ones of each node
  std::size_t size = 0;    // index among the sizes of its kind
  std::vector<GemmShape> products = {};
  GemmPhase phase = GemmPhase::Forward;  // of its products; weight gradients are added to sums in fp32
  Dtype dtype = Dtype::Fp32;
  BenchmarkScale scale = BenchmarkScale::Cores;
  std::int64_t nodes = 1;              // participating nodes
  std::int64_t ranks_of_machine = {};  // ranks per node, numbered consecutively

  /// The participating ranks, ascending.
  [[nodiscard]] std::vector<RankId> members() const;
};

/// The ranks that are measured, evenly distributed over the nodes.
struct MeasuredRanks {
  std::int64_t all = 1, nodes = 1;
  bool share_processors = false;
  bool multiply_fp8 = false;  // all of them can
};

/// The benchmarks in the order of execution. All ranks compute at once, as they do in a layer: they may share a
/// memory's bandwidth and a power limit. If they share processors, rank 0 computes alone, since predictions account for
/// that. With a single rank, only computations are measured. The first communication is one of all ranks.
[[nodiscard]] std::vector<Benchmark> benchmarks(BenchmarkScale scale, const MeasuredRanks& ranks);

/// The products of a table of operators (docs/operators.md), of layers of published models, in bf16: alone and by
/// expert, forward, input gradients and weight gradients; and if the GPU `multiplies_fp8` those of single weights,
/// forward, in fp8. They execute on rank 0.
[[nodiscard]] std::vector<Benchmark> operator_benchmarks(bool multiplies_fp8);

/// The operations of a benchmark on one rank.
struct BenchmarkExecution {
  struct Step {
    Stream stream;
    std::vector<std::size_t> after;
  };
  std::vector<BufferShape> buffers;
  std::vector<Work> works;
  std::vector<Step> steps;  // by work
  /// Buffers to fill with random values, because values affect the time: multiplying zeros draws less power, so that a
  /// GPU clocks higher.
  std::vector<BufferId> random = {};
};
[[nodiscard]] BenchmarkExecution run_of(const Benchmark& benchmark, RankId rank);

/// The benchmark's time in seconds from one execution. `times`: by rank and step, empty for idle ranks.
[[nodiscard]] double time_of(const Benchmark& benchmark, const std::vector<std::vector<OperationTime>>& times);

}  // namespace moeplan::runtime
