// Owner of streams, events and graphs, which releases them on destruction.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cuda_runtime/device/device.hpp"

namespace moeplan::runtime {

class DeviceHandles {
 public:
  explicit DeviceHandles(Device& device) : device_(device) {}
  ~DeviceHandles();
  DeviceHandles(const DeviceHandles&) = delete;
  DeviceHandles& operator=(const DeviceHandles&) = delete;

  [[nodiscard]] DeviceStream make_stream(std::optional<std::size_t> rank = {}, bool is_urgent = false);
  [[nodiscard]] DeviceEvent make_event(bool is_timed);
  [[nodiscard]] DeviceGraph end_capture(DeviceStream stream);
  /// Releases the graphs before the other handles, even if they are executing.
  void release_graphs() noexcept;

 private:
  Device& device_;
  std::vector<DeviceStream> streams_;
  std::vector<DeviceEvent> events_;
  std::vector<DeviceGraph> graphs_;
};

}  // namespace moeplan::runtime
