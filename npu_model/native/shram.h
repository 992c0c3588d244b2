/* The partition of the shared buffer: npu_model/cost/shram.py has the reasons. */
#ifndef SHRAM_H
#define SHRAM_H

#include "flat.h"

PyObject *shram_fitting(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
