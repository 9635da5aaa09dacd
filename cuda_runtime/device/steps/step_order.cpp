#include "cuda_runtime/device/steps/step_order.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace moeplan::runtime {

namespace {

/// For each stream, how many steps (counted over all streams) are known to have ended there: those before this index.
using VectorClock = std::array<std::size_t, kStreamNames.size()>;

void merge(VectorClock& clock, const VectorClock& other) {
  for (std::size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

}  // namespace

std::vector<StepOrder> step_orders(std::span<const DeviceStep> steps) {
  std::vector<StepOrder> out(steps.size());
  std::map<std::size_t, std::size_t> step_of;   // by operation
  std::vector<VectorClock> ends(steps.size());  // what has ended once a step has
  std::array<VectorClock, kStreamNames.size()> now{};
  std::array<std::optional<std::size_t>, kStreamNames.size()> last{};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto stream = static_cast<std::size_t>(steps[s].stream);
    std::vector<std::size_t> after;
    for (const std::size_t operation : steps[s].after) after.push_back(step_of.at(operation));
    std::sort(after.rbegin(), after.rend());  // the latest first: it may imply the others
    for (const std::size_t a : after) {
      const auto other = static_cast<std::size_t>(steps[a].stream);
      if (other == stream || now[stream][other] > a) continue;
      out[s].waits.push_back(a);
      out[a].is_awaited = true;
      merge(now[stream], ends[a]);
    }
    out[s].previous = last[stream];
    now[stream][stream] = s + 1;
    ends[s] = now[stream];
    last[stream] = s;
    step_of[steps[s].operation] = s;
  }
  for (const auto& s : last) {
    if (s) out[*s].is_awaited = true;
  }
  return out;
}

}  // namespace moeplan::runtime
