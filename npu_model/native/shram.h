/* The partition of the shared buffer: npu_model/cost/shram.py has the reasons. */
#ifndef SHRAM_H
#define SHRAM_H

#include "flat.h"

/* The first blocks that fit a query, a number and a partition each; `how` is the most that are wanted, and whether partitions are to be
   distinct. Returns 0, or -1 if this is no query. */
int fitting_blocks(const Flat *query, const i64 *blocks, i64 count, const i64 *how, Growing *found);

PyObject *shram_fitting(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
