/* Cycles that two kernels in a row share: cascader/ethosu/cost/coupling.py has the reasons. */
#ifndef COUPLING_H
#define COUPLING_H

#include "flat.h"

PyObject *coupling(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
