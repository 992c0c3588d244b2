/* The distance of a kernel's reads behind what the kernel before writes: cascader/ethosu/cost/blockdep.py has the rule. */
#ifndef BLOCKDEP_H
#define BLOCKDEP_H

#include "flat.h"

/* Whether an array is a pair of kernels. */
int is_pair(const Flat *flat);

/* The distance of a pair in other blocks; less than nothing if memory ran out. */
i64 blocks_between(const i64 *pair, const i64 *before, const i64 *block);

PyObject *blockdep_distance(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
