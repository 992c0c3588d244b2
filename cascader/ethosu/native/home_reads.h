/* Kernels that read their constants at home: cascader/ethosu/proof/home_reads.py has the Python form. */
#ifndef HOME_READS_H
#define HOME_READS_H

#include "flat.h"

PyObject *home_reads(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
