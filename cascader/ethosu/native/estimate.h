/* Estimates of a kernel's cycles in any block: cascader/ethosu/cost/block_choice.py has the reasons. */
#ifndef ESTIMATE_H
#define ESTIMATE_H

#include "flat.h"

PyObject *estimates(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
