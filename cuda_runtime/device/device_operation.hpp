// An operation of a rank prepared for a device: commands, row indices and staging memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda_runtime/device/device_memory.hpp"
#include "cuda_runtime/device/device_transport.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

struct DeviceProducts {
  Gemm::Form form = Gemm::Form::NN;
  Dtype dtype = Dtype::Fp32, result = Dtype::Fp32;
  std::vector<MatrixProduct> products;
  bool are_separate = false;
};
using DeviceCommand = std::variant<kernels::KernelCall, DeviceProducts>;

struct DeviceOperation {
  std::string name;
  std::vector<DeviceCommand> before;  // the whole of a computation; the packing of a communication
  std::optional<DeviceTransfer> transfer;
  std::vector<DeviceCommand> after;
};

/// The inputs to the preparation of operations.
struct DeviceContext {
  std::vector<DeviceBuffer>& buffers;  // by BufferId
  DevicePool& pool;
  const CodecOptions& codecs;
  std::int32_t* failure;  // set by kernels if a token was sent to an expert that the gate did not select

  [[nodiscard]] const DeviceBuffer& buffer(BufferId id) const { return buffers[id.index()]; }
  /// The view of a row list, without an index if the rows are contiguous.
  [[nodiscard]] kernels::RowView rows(const RowList& list) const;
};

/// Prepares an operation. Raises InputError for what is not supported on GPUs: more than kernels::kMostChosen experts
/// per token, and products of several formats other than those of Products.
[[nodiscard]] DeviceOperation device_operation(const Work& work, const std::string& name, const DeviceContext& context);

/// Prepares a communication (device_transfers.cpp).
[[nodiscard]] DeviceOperation device_transfer(const ExchangeWork& work, const DeviceContext& context);
[[nodiscard]] DeviceOperation device_transfer(const CollectiveWork& work, const DeviceContext& context);

/// Element ranges cut into pieces of at most kernels::kLongestPiece elements, with consecutive packed positions.
[[nodiscard]] std::vector<kernels::Piece> pieces_of(const Packed& packed);

void issue(Device& device, DeviceStream stream, std::span<const DeviceCommand> commands);

}  // namespace moeplan::runtime
