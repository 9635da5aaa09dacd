#include "model/operators/kernel_model.hpp"

#include <algorithm>

namespace moeplan {

namespace {

constexpr Bytes kRampBytes(4e6);  // half of `ramp` is paid here

}  // namespace

Seconds KernelCost::time() const { return std::max(host, launch + memory); }

std::string_view KernelCost::bound() const {
  if (host > launch + memory) return "host";
  return launch > memory ? "launch" : "memory";
}

KernelCost kernel_cost(const KernelModel& model, double elements) {
  const Bytes bytes(model.bytes_per_element * elements);
  double gain = 1;
  if (model.resident_bytes > Bytes(0)) {
    const double fill = bytes / model.resident_bytes;
    gain += (model.resident - 1) / (1 + fill * fill * fill * fill);
  }
  return {.launch = model.launch + model.ramp * (bytes / (bytes + kRampBytes)),
          .memory = bytes / (model.memory * gain),
          .host = model.host};
}

KernelModel read_kernel_model(MapReader entry) {
  KernelModel m{.kernel = entry.text("kernel"),
                .implementation = entry.text("implementation"),
                .is_backward = entry.boolean_or("backward", false),
                .launch = entry.quantity<Seconds>("launch"),
                .bytes_per_element = entry.number("bytes_per_element", 0.01, 1e4),
                .memory = entry.quantity<BytesPerSecond>("memory"),
                .resident = entry.number_or("resident", 1, 0.01, 100),
                .resident_bytes = entry.quantity_or<Bytes>("resident_bytes", Bytes(0)),
                .ramp = entry.quantity_or<Seconds>("ramp", Seconds(0)),
                .host = entry.quantity_or<Seconds>("host", Seconds(0)),
                .fits_all = entry.boolean_or("fits_all", false)};
  entry.finish();
  return m;
}

}  // namespace moeplan
