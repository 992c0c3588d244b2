/* How far a kernel's reads are behind what the kernel before writes: cascader/ethosu/cost/blockdep.py has the rule. */
#ifndef BLOCKDEP_H
#define BLOCKDEP_H

#include "flat.h"

PyObject *blockdep_distance(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
