// The time of a memory-bound kernel, or of a few that make up an operator: normalisation, activation, rotary
// embedding, softmax, cross entropy, casts. docs/operators.md lists the fitted numbers.
//
//   time = max(host, launch + ramp x bytes / (bytes + 4 MB) + bytes / bandwidth)
//
// with bytes = elements x bytes_per_element, and a bandwidth that rises (or falls) by `resident` for data that stay in
// L2 between calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The numbers of one implementation of a kernel on a GPU in one direction.
struct KernelModel {
  std::string kernel;          // "rms_norm", ...
  std::string implementation;  // "liger", ...
  bool is_backward = false;
  Seconds launch;
  double bytes_per_element = 0;  // read and written; of rotary kernels: of queries and keys
  BytesPerSecond memory;         // HBM bandwidth of a working set beyond L2
  double resident = 1;           // bandwidth with the working set in L2 over `memory`; 1: the measuring loop clears L2
  Bytes resident_bytes;          // working set at which half of that gain is left
  Seconds ramp;                  // more blocks, a second stage of a reduction; half of it is paid at 4 MB
  Seconds host;                  // the measuring host cannot issue calls faster; not the GPU's time
  bool fits_all = false;         // fitted to all rows, too few to hold any out
  bool operator==(const KernelModel&) const = default;
};

/// The time of one call, and how it comes about.
struct KernelCost {
  Seconds launch, memory, host;
  [[nodiscard]] Seconds time() const;
  /// "host", "launch" or "memory": what decides.
  [[nodiscard]] std::string_view bound() const;
};

/// The cost of `elements` of the kernel's tensor: rows x columns, of rotary kernels tokens x heads x head_dim.
[[nodiscard]] KernelCost kernel_cost(const KernelModel& model, double elements);

/// Reads one entry of the list `kernels` of a file in configs/operators.
[[nodiscard]] KernelModel read_kernel_model(MapReader entry);

}  // namespace moeplan
