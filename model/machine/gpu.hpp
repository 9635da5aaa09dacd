// The parameters of a GPU that the cost models use. Files: configs/gpus.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/machine/dtype.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

struct OperatorModels;  // model/operators/operator_models.hpp
struct RateFactors;     // model/operators/reference_rates.hpp

/// A point of an efficiency curve: a GEMM of `flops` operations reaches this fraction of peak.
struct EfficiencyPoint {
  double flops;
  double efficiency;  // (0, 1]
  bool operator==(const EfficiencyPoint&) const = default;
};

/// GPU memory that a job uses in addition to its tensors.
struct RuntimeMemory {
  Bytes context = Bytes(0);       // the driver's context, library code
  Bytes workspaces = Bytes(0);    // of libraries of matrix products, which a framework's allocator counts
  Bytes communicator = Bytes(0);  // buffers of one communicator with more than one rank
  double fragmentation = 0;  // memory lost by the allocator, as a fraction of the memory that is allocated and freed
  bool operator==(const RuntimeMemory&) const = default;
};

/// Elements per second of kernels of PyTorch that their elements bound, not their bytes (Kernel); none: their bytes do.
struct ElementRates {
  std::optional<double> general_pass, scatter_add, index_add;
  bool operator==(const ElementRates&) const = default;
};

struct GpuSpec {
  std::string name;
  std::map<Dtype, FlopsPerSecond> peak;  // without sparsity, by the format of the operands
  Bytes memory;                          // usable device memory
  BytesPerSecond hbm_bandwidth;
  std::vector<EfficiencyPoint> gemm_efficiency;  // ascending in flops, at least one
  double attention_efficiency;                   // fraction of peak of a fused attention kernel, (0, 1]
  double memory_efficiency;                      // fraction of hbm_bandwidth that memory-bound kernels reach, (0, 1]
  // The same of kinds of kernels that reach less, where they were measured.
  std::optional<double> cast_efficiency = {};           // of casts to 8 bits, in rows and in columns
  std::optional<double> permutation_efficiency = {};    // of kernels that move rows by index
  std::optional<double> norm_backward_efficiency = {};  // of the gradients of norms
  std::optional<double> activation_efficiency = {};     // of activations, gated or not
  std::optional<double> activation_backward_efficiency = {};
  std::optional<double> loss_efficiency = {};  // of cross entropy, forward and backward
  ElementRates element_rates = {};
  /// Products take operands with one fp8 scale in rows and in columns alike, so that casts write one copy.
  bool fp8_operands_in_any_layout = false;
  /// Rate of grouped products in a kernel that also exchanges their rows (Operation::parts), over their rate without.
  double fused_exchange_efficiency = 1;
  Seconds launch_overhead;  // per kernel
  std::int64_t num_sms;
  std::int64_t tile_rows;     // rows of the output tile of a grouped GEMM: an expert's rows are padded to this
  std::int64_t tile_columns;  // columns of that tile
  double slowdown_beside_communication;    // factor >= 1 on compute time while communication kernels run
  double slowdown_beside_computation = 1;  // factor >= 1 on a transfer's time at a measured rate while the GPU computes
  RuntimeMemory runtime_memory = {};       // zero if the file does not give it
  /// Time of the host CPU that drives the GPU to launch one operation of a Program in training, with everything that
  /// the framework does for it; zero if the file does not give it: launches are hidden.
  Seconds host_time_per_operation = Seconds(0);
  /// Of copies between the GPU's memory and its host's, of both directions together, while the host's other GPUs copy.
  std::optional<BytesPerSecond> host_bandwidth = {};

  // Grouped GEMMs (the experts' GEMMs), if they were measured separately. Missing values are those of single GEMMs:
  // gemm_efficiency, the full hbm_bandwidth, launch_overhead.
  std::optional<std::vector<EfficiencyPoint>> grouped_gemm_efficiency = {};  // by the total FLOPs of all products
  std::optional<double> grouped_gemm_memory_efficiency = {};                 // fraction of hbm_bandwidth, (0, 1]
  std::optional<Seconds> grouped_gemm_launch_overhead = {};  // per grouped GEMM, including sorting rows by expert

  /// Measured throughput of a codec, in bytes of unencoded rows per second. A codec that is not listed is priced as a
  /// memory-bound kernel.
  std::map<WireFormat, BytesPerSecond> codec_throughput = {};
  /// Time of a call of a codec's encoder or decoder before its first byte. A codec that is not listed takes
  /// launch_overhead.
  std::map<WireFormat, Seconds> codec_startup = {};

  /// Models of kernels by their shapes; null: none. They price products and attention in the formats that they have;
  /// the shares of the peak above price the others. Copies of a GPU share them.
  std::shared_ptr<const OperatorModels> operators = {};

  bool operator==(const GpuSpec&) const = default;
};

/// Reads one GPU: the content of a file in configs/gpus, or the same map inside a cluster, with its `operators:`
/// embedded.
[[nodiscard]] GpuSpec read_gpu(MapReader gpu);

/// Changes the GPU's operator models, if it has any, by the factors.
void scale_operators(GpuSpec& gpu, const RateFactors& factors);

/// Replaces `operators: NAME` of a GPU by the content of NAME.yaml from the folder `operators` next to one of
/// `gpu_dirs`; `operators: none` stays. Raises InputError.
void embed_operators(Node& gpu, const std::vector<std::filesystem::path>& gpu_dirs);

}  // namespace moeplan
