/* A plug-in: a shared library with all-to-alls and schedules of your own, loaded by `moeplan --plugin LIBRARY COMMAND ...`.
 * It describes them by plain data, so that it needs nothing else of moeplan, neither its sources nor its compiler:
 *
 *   - an all-to-all by the parts in which ranks exchange, and their order ([ScheMoE] sec. 3, AbsAlltoAll);
 *   - a schedule by the order of the chunks' tasks ([ScheMoE] sec. 4, eq. 12).
 *
 * They are then planned, simulated, listed and written to plan files like the built-in ones. A compressor needs no library:
 * its bits a value and its throughput are settings (docs/extending.md). */
#ifndef MOEPLAN_PLUGIN_H
#define MOEPLAN_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOEPLAN_PLUGIN_VERSION 1 /* of this header */

/* A part of an exchange: every rank sends to the `count` ranks from the `first` after itself, cyclically. */
struct moeplan_part {
  int64_t first;
  int64_t count;
  int32_t inside_node; /* on the stream of traffic inside nodes instead of that between nodes */
  int32_t continues;   /* is launched together with the part before it, without a start-up of its own */
};

struct moeplan_all_to_all {
  const char* name;
  const char* summary; /* one line */
  /* Writes the parts of an exchange among `ranks` ranks, of which `per_node` consecutive ones share a node, in order, and
   * returns their number, at most `ranks`; or 0 if it cannot run there. Together they must have every distance from 0 to
   * ranks - 1 once. The combine takes them in reverse order. */
  int64_t (*parts)(int64_t ranks, int64_t per_node, struct moeplan_part* parts);
};

/* The tasks of a chunk, each after the one before it: C1 A1 D1 E C2 A2 D2. */
enum moeplan_task {
  MOEPLAN_ENCODE,
  MOEPLAN_DISPATCH,
  MOEPLAN_DECODE,
  MOEPLAN_EXPERT,
  MOEPLAN_ENCODE_COMBINE,
  MOEPLAN_COMBINE,
  MOEPLAN_DECODE_COMBINE
};

struct moeplan_step {
  int64_t chunk; /* from 0 */
  int32_t task;  /* enum moeplan_task */
};

struct moeplan_schedule {
  const char* name;
  const char* summary; /* one line */
  /* Writes the 7 * `chunks` tasks in the order in which they are launched. Dispatches and combines run on one stream, the
   * other tasks on another, both in this order. */
  void (*order)(int64_t chunks, struct moeplan_step* steps);
};

struct moeplan_plugin {
  int32_t version; /* MOEPLAN_PLUGIN_VERSION */
  int32_t num_all_to_alls;
  const struct moeplan_all_to_all* all_to_alls;
  int32_t num_schedules;
  const struct moeplan_schedule* schedules;
};

/* What the library defines. */
const struct moeplan_plugin* moeplan_plugin_entry(void);

#ifdef __cplusplus
}
#endif

#endif
