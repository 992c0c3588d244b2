/* Estimates of a kernel's cycles in any block: cascader/ethosu/cost/block_estimator.py has the reasons. */
#ifndef ESTIMATE_H
#define ESTIMATE_H

#include "sources.h"

/* Cycles of a kernel in each of some blocks (height, width, depth). Returns 0, or -1 with an exception set. */
int estimate_blocks(const Flat *kernel, const double *sources, const i64 *blocks, i64 count, double *out);

PyObject *estimates(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
