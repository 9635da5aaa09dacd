// An operation of a rank with everything that it needs on the device: lists of rows, staging memory, addresses.
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
  Dtype dtype = Dtype::Fp32;
  std::vector<MatrixProduct> products;
  const void* const* addresses = nullptr;
};
using DeviceCommand = std::variant<kernels::KernelCall, DeviceProducts>;

struct DeviceOperation {
  std::string name;
  std::vector<DeviceCommand> before;  // all of what computes; of what communicates, packing
  std::optional<DeviceTransfer> transfer;
  std::vector<DeviceCommand> after;
};

/// What operations are made from.
struct DeviceContext {
  std::vector<DeviceBuffer>& buffers;  // by BufferId
  DevicePool& pool;
  const CodecOptions& codecs;
  std::int32_t* failure;  // where kernels leave word that a token was sent to an expert that the gate did not choose

  [[nodiscard]] const DeviceBuffer& buffer(BufferId id) const { return buffers[id.index()]; }
  /// None where they lie one behind the other.
  [[nodiscard]] kernels::RowView rows(const RowList& list) const;
};

/// Raises InputError where something of it is not computed on GPUs: more than kernels::kMostChosen experts a token,
/// products of several formats.
[[nodiscard]] DeviceOperation device_operation(const Work& work, const std::string& name, const DeviceContext& context);

/// Of an operation that communicates (device_transfers.cpp).
[[nodiscard]] DeviceOperation device_transfer(const ExchangeWork& work, const DeviceContext& context);
[[nodiscard]] DeviceOperation device_transfer(const CollectiveWork& work, const DeviceContext& context);

/// Runs of elements in pieces that are not too long, packed one behind the other.
[[nodiscard]] std::vector<kernels::Piece> pieces_of(const Packed& packed);

void issue(Device& device, DeviceStream stream, std::span<const DeviceCommand> commands);

}  // namespace moeplan::runtime
