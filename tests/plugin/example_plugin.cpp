// A plug-in as docs/extending.md shows it, and entries that are refused.
#include "planner/plugin/moeplan_plugin.h"

namespace {

/// The nearer half of the ranks, then the others.
int64_t halves(int64_t ranks, int64_t /*per_node*/, moeplan_part* parts) {
  if (ranks % 2 != 0) return 0;
  parts[0] = {0, ranks / 2, 0, 0};
  parts[1] = {ranks / 2, ranks / 2, 0, 0};
  return 2;
}

/// Half of the ranks get nothing.
int64_t lossy(int64_t ranks, int64_t /*per_node*/, moeplan_part* parts) {
  parts[0] = {0, (ranks + 1) / 2, 0, 0};
  return 1;
}

/// Each chunk once the chunk before it is back.
void one_by_one(int64_t chunks, moeplan_step* steps) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int32_t task = MOEPLAN_ENCODE; task <= MOEPLAN_DECODE_COMBINE; ++task) *steps++ = {chunk, task};
  }
}

/// Every combine before its dispatch.
void backwards(int64_t chunks, moeplan_step* steps) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int32_t task = MOEPLAN_DECODE_COMBINE; task >= MOEPLAN_ENCODE; --task) *steps++ = {chunk, task};
  }
}

const moeplan_all_to_all kAllToAlls[] = {{"halves", "the nearer half of the ranks first, then the others", halves},
                                         {"lossy", "half of the ranks", lossy}};
const moeplan_schedule kSchedules[] = {{"one_by_one", "each chunk once the one before it is back", one_by_one},
                                       {"backwards", "combine before dispatch", backwards}};
const moeplan_plugin kPlugin{MOEPLAN_PLUGIN_VERSION, 2, kAllToAlls, 2, kSchedules};

}  // namespace

const moeplan_plugin* moeplan_plugin_entry() { return &kPlugin; }
