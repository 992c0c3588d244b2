/* The least times of the units behind a kernel: cascader/ethosu/proof/least_step.py has the Python form. */
#ifndef LEAST_STEP_H
#define LEAST_STEP_H

#include "flat.h"

PyObject *least_step(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
