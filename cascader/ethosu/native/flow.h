/* A kernel's work for the units, and its flow through them: cascader/ethosu/cost/kernel_load.py and kernel_flow.py have the reasons. */
#ifndef FLOW_H
#define FLOW_H

#include "sources.h"

enum { LOAD_HEAD = 5, BLOCK_HEAD = 4, STEP_SIZE = 6, MOST_STORES = 4, STATE_SIZE = 28, STEPS_PREFETCHED = 2 };
enum { LOAD_PLACES, LOAD_KINDS, LOAD_MAPS, LOAD_CONSTANTS, LOAD_FETCHING };

/* The units: latency of a store, and when each is free, as Pipeline keeps them; the last stores with their number before them. */
typedef struct {
    double latency, load, decoder, mac, mac_before, output, output_before, store, store_before, port, allowance;
    double asked, slot, slot_before, filled, begun, stream, mac_earlier, load_from, load_to, next_from, next_to, answered, stores, last[MOST_STORES];
} Units;

/* The blocks that run, from the first to the last (exclusive); blocks of the kernel before that may be unfinished then; and whether the
   first weights are there already. */
typedef struct {
    i64 first, last, distance;
    int prefetched;
} Run;

typedef struct {
    double cycles, tail;
} Flow;

/* The load of an operation's blocks, behind what `out` has. Returns 0, or -1 if memory ran out. */
int load_of_work(const Flat *work, i64 map_burst, i64 burst, Growing *out);

/* Whether so many integers are a load, with what a run of its blocks looks at. */
int load_fits(const i64 *load, i64 length, i64 first, i64 last);

/* One more kernel through the units. Returns 0, or -1 if memory ran out. */
int flow_of_load(const i64 *load, const Sources *sources, Units *units, Run run, Flow *flow);

PyObject *kernel_load(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernel_flow(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
