// A back end that forwards to another one, which it may own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime/device/device_world.hpp"

namespace moeplan::runtime {

class ForwardingBackend final : public Backend {
 public:
  explicit ForwardingBackend(Backend& to) : to_(to) {}
  /// Forwards to the only rank of this world, and owns the world.
  explicit ForwardingBackend(std::unique_ptr<DeviceWorld> world) : world_(std::move(world)), to_(world_->backend(0)) {}

  void allocate(std::span<const BufferShape> buffers) override { to_.allocate(buffers); }
  void write_row(BufferId buffer, std::int64_t row, std::span<const double> values) override {
    to_.write_row(buffer, row, values);
  }
  std::vector<double> read_row(BufferId buffer, std::int64_t row) override { return to_.read_row(buffer, row); }
  void make(BufferId buffer, const MadeElements& elements) override { to_.make(buffer, elements); }
  void clear(BufferId buffer) override { to_.clear(buffer); }
  void prepare(const Work& work, const std::string& name) override { to_.prepare(work, name); }
  void begin() override { to_.begin(); }
  void enqueue(std::size_t operation, Stream stream, std::span<const std::size_t> after) override {
    to_.enqueue(operation, stream, after);
  }
  std::vector<OperationTime> finish() override { return to_.finish(); }

 private:
  std::unique_ptr<DeviceWorld> world_;
  Backend& to_;
};

}  // namespace moeplan::runtime
