#include "cuda_runtime/device/device_handles.hpp"

#include <exception>

namespace moeplan::runtime {

DeviceHandles::~DeviceHandles() {
  release_graphs();
  try {
    for (const DeviceEvent event : events_) device_.release(event);
    for (const DeviceStream stream : streams_) device_.release(stream);
  } catch (const std::exception&) {
    // Ignored: a failed device has nothing to release.
  }
}

void DeviceHandles::release_graphs() noexcept {
  try {
    for (const DeviceGraph graph : graphs_) device_.release(graph);
  } catch (const std::exception&) {
    // As above.
  }
  graphs_.clear();
}

DeviceStream DeviceHandles::make_stream(std::optional<std::size_t> rank, bool is_urgent) {
  return streams_.emplace_back(device_.make_stream(rank, is_urgent));
}
DeviceEvent DeviceHandles::make_event(bool is_timed) { return events_.emplace_back(device_.make_event(is_timed)); }
DeviceGraph DeviceHandles::end_capture(DeviceStream stream) {
  return graphs_.emplace_back(device_.end_capture(stream));
}

}  // namespace moeplan::runtime
