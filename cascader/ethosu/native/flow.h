/* What a kernel asks of the units, and how it flows through them: cascader/ethosu/cost/kernel_flow.py has the reasons. */
#ifndef FLOW_H
#define FLOW_H

#include "flat.h"

PyObject *kernel_load(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernel_flow(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
