/* The estimates of one kernel: cascader/ethosu/cost/kernel_estimate.py has the reasons. */
#ifndef KERNEL_H
#define KERNEL_H

#include "flat.h"

PyObject *kernel_estimates(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
